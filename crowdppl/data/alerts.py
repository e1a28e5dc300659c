"""Beginnings of the warnings that stand above a result, since it must not be used as it is."""

LABELS_UNCLEAR = "labels to be cleaned first"
CLASSES_LOST = "classes lost: do not use these labels"
ONE_CLASS_OR_GUESSES = "one class or workers who guess"
HARDLY_AGREE = "workers hardly agree"
SAME_ANSWERS = "workers with the same answers"
