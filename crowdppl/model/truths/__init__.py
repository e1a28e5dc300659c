"""Kinds of truth: what the states of an item's truth are, and what follows from it.

Engines know states only: the item log joint ``(N, S)``, its softmax, draws of states. What states say of classes, where known
true labels enter, and how the truths of items depend on each other is asked of ``bound.truths``, one of

- ``Classes``: a state belongs to one class, and items are independent given the parameters,
- ``Places``: a class is read off a state with probabilities, as a grade off a place on a line,
- ``Coupled``: truths of items depend on each other, along a sequence or within a set.

Truths that are numbers have no states; :mod:`crowdppl.model.numeric` integrates them.
"""

from crowdppl.model.stated import StatedModel
from crowdppl.model.truths.classes import Classes as Classes
from crowdppl.model.truths.coupled import Coupled as Coupled
from crowdppl.model.truths.places import Places as Places


def truths_of(model: StatedModel, *, in_sequences: bool) -> Classes:
    """Return the kind of truth of a model.

    Args:
        model: as stated.
        in_sequences: whether the items of the data form sequences or sets.
    """
    if model.provides("reading"):
        return Places(model)
    return Coupled(model) if model.provides("coupling") and in_sequences else Classes(model)
