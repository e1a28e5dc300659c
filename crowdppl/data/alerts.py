"""Beginnings of the warnings that stand above a result, since it must not be used as it is."""

LABELS_UNCLEAR = "labels to be cleaned first"
CLASSES_LOST = "classes lost: do not use these labels"
SAME_ANSWERS = "workers with the same answers"
