"""CrowdClassifier: scikit-learn's conventions, and better than a classifier of the votes."""

import builtins
import subprocess
import sys

import numpy as np
import pytest
import torch

import crowdppl
from crowdppl.errors import OptionError

pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn 1.6 or later is not installed")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

from crowdppl.learning import CrowdClassifier


def crowd(seed=0, classes=4, each=3, workers=10):
    """Digits below ``classes`` with labels of workers, missing where they gave none: features, labels, truth; and new items."""
    x, truth = load_digits(n_class=classes, return_X_y=True)
    x, new, truth, new_truth = train_test_split(x, truth, test_size=0.5, random_state=seed)
    rng = np.random.default_rng(seed)
    wrong = (truth[:, None] + rng.integers(1, classes, size=(len(x), workers))) % classes
    y = np.where(rng.random((len(x), workers)) < rng.uniform(0.3, 0.8, workers), truth[:, None], wrong).astype(float)
    y[rng.random(y.shape).argsort(1) >= each] = np.nan
    return x, y, truth, new, new_truth


LOGISTIC = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "estimator",
    [None, pytest.param(LogisticRegression(), marks=pytest.mark.longest)],
    ids=["default", "logistic"],
)
def test_scikit_learns_checks(estimator):
    state = np.random.get_state()  # noqa: NPY002 - the checks draw from numpy's stream
    try:
        results = check_estimator(CrowdClassifier(estimator), on_fail=None)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    assert not [one["check_name"] for one in results if one["status"] not in ("passed", "skipped")]
    assert len(results) > 40


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(None, marks=pytest.mark.slow), LOGISTIC, KNeighborsClassifier(9)],
    ids=["default", "pipeline", "no weights"],
)
def test_better_than_the_votes(estimator):
    """Labels and new items; the differences are ten standard errors of a share on 360 items."""
    x, y, truth, new, new_truth = crowd()
    votes = np.array([np.bincount(row[~np.isnan(row)].astype(int), minlength=4).argmax() for row in y])
    classifier = CrowdClassifier(estimator).fit(x, y)
    assert (classifier.label_probability_.argmax(1) == truth).mean() > (votes == truth).mean() + 0.1
    simple = clone(LOGISTIC if estimator is None else estimator).fit(x, votes)
    assert classifier.score(new, new_truth) > simple.score(new, new_truth) - 0.01
    stated = classifier.predict_proba(new)
    np.testing.assert_allclose(stated.sum(1), 1)
    assert (
        -np.log(stated[np.arange(len(new)), new_truth]).mean()
        < -np.log(np.maximum(simple.predict_proba(new)[np.arange(len(new)), new_truth], 1e-6)).mean()
    )


def test_workers_are_found():
    """The mean of the diagonal is within .1 of the share of correct labels; some 100 labels each, and four classes."""
    x, y, truth, _, _ = crowd(each=5)
    classifier = CrowdClassifier(LOGISTIC).fit(x, y)
    correct = np.array([(y[:, j] == truth)[~np.isnan(y[:, j])].mean() for j in range(y.shape[1])])
    stated = np.diagonal(classifier.confusion_, axis1=1, axis2=2).mean(1)
    assert np.abs(stated - correct).max() < 0.1


def test_a_flexible_classifier_does_not_confirm_itself():
    """A tree repeats what it was trained on; judged by trees of other items, labels do not stay where the votes were."""
    x, y, truth, _, _ = crowd()
    classifier = CrowdClassifier(DecisionTreeClassifier(random_state=0)).fit(x, y)
    votes = np.array([np.bincount(row[~np.isnan(row)].astype(int), minlength=4).argmax() for row in y])
    assert (classifier.label_probability_.argmax(1) == truth).mean() > (votes == truth).mean() + 0.05
    assert classifier.power_ < 1  # it states 0 and 1


def test_labels_of_any_kind_and_missing_ones():
    x, y, _, new, _ = crowd()
    names = np.array(["nought", "one", "two", "three"], dtype=object)
    words = np.full(y.shape, None, dtype=object)
    there = ~np.isnan(y)
    words[there] = names[y[there].astype(int)]
    words[:3] = None  # items that nobody labelled are judged by their features
    classifier = CrowdClassifier(LOGISTIC).fit(x, words)
    assert classifier.classes_.tolist() == sorted(names)
    assert set(classifier.predict(new)) <= set(names)
    assert classifier.label_probability_.shape == (len(x), 4)
    assert CrowdClassifier(LOGISTIC).fit(x, y).classes_.tolist() == [0, 1, 2, 3]


def test_one_worker_is_taken_for_correct():
    x, _, truth, new, new_truth = crowd()
    for estimator in (None, LOGISTIC):
        classifier = CrowdClassifier(estimator).fit(x, truth)
        assert classifier.score(new, new_truth) > 0.95
        np.testing.assert_array_equal(classifier.label_probability_.argmax(1), truth)


@pytest.mark.slow
def test_a_network_of_torch():
    x, y, _, new, new_truth = crowd()
    with torch.random.fork_rng():
        network = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    classifier = CrowdClassifier(network).fit(x / 16, y)
    assert classifier.score(new / 16, new_truth) > 0.8


def test_what_cannot_be_used_is_refused():
    x, y, truth, _, _ = crowd()
    with pytest.raises(OptionError, match="LinearSVC without predict_proba"):
        CrowdClassifier(LinearSVC()).fit(x, y)
    with pytest.raises(OptionError, match="folds"):
        CrowdClassifier(LOGISTIC, folds=1).fit(x, y)
    with pytest.raises(OptionError, match="max_iter"):
        CrowdClassifier(LOGISTIC, max_iter=0).fit(x, y)
    with pytest.raises(ValueError, match="words and numbers"):
        CrowdClassifier(LOGISTIC).fit(x, np.where(np.arange(10) == 0, "a", y.astype(object)))
    with pytest.raises(ValueError, match="the labels of 3"):
        CrowdClassifier(LOGISTIC).fit(x, y[:3])
    with pytest.raises(ValueError, match="contains NaN"):
        CrowdClassifier(LOGISTIC).fit(x, np.where(np.arange(len(x)) == 0, np.nan, truth.astype(float)))
    with pytest.raises(ValueError, match="1 class"):
        CrowdClassifier(LOGISTIC).fit(x, np.zeros((len(x), 2)))


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == "sklearn":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "crowdppl.learning.crowd_classifier")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'crowdppl\[learn\]'"):
        crowdppl.learning.__getattr__("CrowdClassifier")


@pytest.mark.slow
def test_the_first_import_leaves_the_random_stream_alone():
    """In a process of its own: Python's stream, which the first import of scikit-learn draws from."""
    code = (
        "import random, crowdppl.learning; before = random.getstate(); crowdppl.learning.CrowdClassifier; "
        "assert random.getstate() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
