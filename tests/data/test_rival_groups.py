"""Which of two groups has copied, where each is the reason why the other seems to."""

from crowdppl.data.rival_groups import NEARLY_ALL, Rival, settled

SIX, THREE, TWO = Rival((0, 1, 2, 3, 4, 5), 6, 0.8), Rival((6, 7, 8), 3, 0.9), Rival((9, 10), 2, 0.9)


def resting(on):
    """Tell by a table of places whether a group is named: not if all but one of a group that it rests on are not counted."""
    groups = (SIX, THREE, TWO)

    def holds(place, once):
        return not any(set(groups[other].workers[1:]) <= once for other in on.get(place, ()))

    return list(groups), holds


def test_groups_that_need_no_other_are_all_named():
    assert settled(*resting({})) == [0, 1, 2]
    assert settled([], lambda place, once: False) == []
    assert settled([SIX], lambda place, once: False) == [0]


def test_a_group_that_rests_on_copies_is_not_named():
    """The six seem copies by the three alone, who are named by others; the larger group has no say in it."""
    assert settled(*resting({0: [1]})) == [1, 2]
    assert settled(*resting({2: [0]})) == [0, 1]


def test_of_two_that_rest_on_each_other_the_smaller_has_copied():
    assert settled(*resting({0: [1], 1: [0]})) == [1, 2]
    assert settled(*resting({0: [1, 2], 1: [0], 2: [0]})) == [1, 2]


def test_of_two_about_as_large_only_equal_labels_throughout_tell():
    assert settled(*resting({1: [2], 2: [1]})) == [0]
    exact = Rival(TWO.workers, 2, NEARLY_ALL)
    assert exact.rather_than(THREE)
    assert not THREE.rather_than(exact)
    assert not Rival(THREE.workers, 3, 1.0).rather_than(TWO)  # nor where the larger one gives equal labels
    assert not exact.rather_than(Rival(THREE.workers, 3, 1.0))
