"""Sampling until convergence: when it ends, what it says where it fails, and that its advice helps."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from catalog import Stop, fit, quiet_fit, simulated, stopping
from commands import run

import crowdppl
from crowdppl import CrowdpplWarning, Posterior, criticism, report
from crowdppl.data.alerts import HARDLY_AGREE, SAME_ANSWERS
from crowdppl.inference.backends import chains, choose
from crowdppl.inference.engines import gibbs as engine
from crowdppl.inference.engines.convergence import warning
from crowdppl.posterior.recorded import NOT_CONVERGED


def two_camps(known=0):
    """Two camps of workers who always contradict each other on items of two classes: either may be correct."""
    truth = np.arange(40) % 2
    rows = [(f"item {i:02}", f"worker {j}", int(truth[i] ^ (j % 2))) for i in range(40) for j in range(6)]
    frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
    answers = {f"item {i:02}": int(truth[i]) for i in range(known)}
    return crowdppl.Annotations.from_frame(frame, truth=answers or None)


@pytest.fixture(scope="module")
def easy():
    return simulated(items=100, seed=2, per_item=6, features=False)[0]


@pytest.fixture(scope="module")
def hopeless():
    """A clock that counts sweeps, so that a busy machine changes nothing: 1,500 sweeps in all."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine._Run, "clock", lambda self: self.target / 1500)
        return quiet_fit(two_camps(), "dawid-skene", method="gibbs", seed=1, max_seconds=1.0)


def test_easy_data_converge(easy):
    with warnings.catch_warnings():
        warnings.simplefilter("error", CrowdpplWarning)
        posterior = crowdppl.fit(easy, "dawid-skene", method="gibbs", seed=1)
    facts = posterior.info["facts"]
    assert facts["converged"]
    assert max(facts["r_hat"].values()) <= 1.01
    assert min(facts["ess"].values()) >= 400
    assert facts["warmup"] >= 500
    assert posterior.alert == ""
    assert NOT_CONVERGED not in repr(posterior)
    sizes = posterior.tree["posterior"].sizes
    assert sizes["chain"] * sizes["draw"] <= engine.KEPT
    assert min(facts["ess_stored"].values()) <= sizes["chain"] * sizes["draw"]
    # Of the same posterior as a run of a given length: probabilities within .05, some five standard errors of the smaller run.
    long = fit(easy, "dawid-skene", method="gibbs", seed=5, num_samples=2000)
    assert np.abs(long.probability_as_published() - posterior.probability_as_published()).max() < 0.05


def test_the_same_seed_gives_the_same_result(easy):
    """However long it took: the rule looks at draws only."""
    one, two = (
        quiet_fit(easy, "dawid-skene", method="gibbs", seed=3, max_seconds=seconds) for seconds in (500.0, 600.0)
    )
    assert one.info["facts"]["num_samples"] == two.info["facts"]["num_samples"]
    np.testing.assert_array_equal(one.draws("confusion"), two.draws("confusion"))


def test_chains_in_turn_converge(monkeypatch, easy):
    monkeypatch.setattr(crowdppl.inference.memory, "WORK_BYTES", 1)
    posterior = fit(easy, "dawid-skene", method="gibbs", seed=1, chains=3)
    assert posterior.info["facts"]["converged"]
    assert posterior.tree["posterior"].sizes["chain"] == 3


def test_many_sweeps_keep_few_draws(monkeypatch, easy):
    """Draws are thinned as the run grows, and those kept are spread evenly over the sweeps that count."""
    monkeypatch.setattr(engine, "KEPT", 40)
    posterior = fit(easy, "dawid-skene", method="gibbs", seed=1)
    facts, sizes = posterior.info["facts"], posterior.tree["posterior"].sizes
    assert sizes["draw"] == 10
    assert facts["thin"] == facts["num_samples"] // 10


def test_items_beyond_memory_are_watched_in_part(monkeypatch, easy):
    monkeypatch.setattr(engine, "MOMENT_BYTES", 4 * 5 * 32 * 200)
    rows, layout, blocks = engine._layout(easy, 5, 0)
    begin, end = layout.kinds["truth"]
    assert blocks == 32
    assert end <= 200
    assert len(rows) * layout.classes == end - begin
    assert fit(easy, "dawid-skene", method="gibbs", seed=1).info["facts"]["converged"]


@pytest.mark.parametrize("budget", [1e-9, 0.05])
def test_a_budget_too_small_is_told(easy, budget):
    with pytest.warns(CrowdpplWarning, match=NOT_CONVERGED):
        posterior = crowdppl.fit(easy, "dawid-skene", method="gibbs", seed=1, max_seconds=budget)
    assert posterior.warnings[0] == posterior.alert
    assert posterior.alert.startswith(NOT_CONVERGED)
    assert "raise max_seconds to about" in posterior.alert
    assert repr(posterior).startswith(f"Posterior({NOT_CONVERGED}")
    assert not posterior.info["facts"]["converged"]


def test_several_modes_are_told(hopeless):
    """The chains settle for one camp each: more time does not help, and is not advised."""
    facts = hopeless.info["facts"]
    assert facts["modes"]
    assert facts["disagreeing_items"] == 40
    assert "R-hat of" in hopeless.alert
    assert "the chains disagree about 40 items" in hopeless.alert
    assert "known truths" in hopeless.alert
    assert "max_seconds" not in hopeless.alert
    assert any("different solutions" in sentence for sentence in criticism.advice(hopeless))


def test_known_truths_help():
    """What the warning about several modes advises; workers of a camp give equal labels and the camps disagree: it says both."""
    posterior = quiet_fit(two_camps(known=12), "dawid-skene", method="gibbs", seed=0)
    assert posterior.info["facts"]["converged"]
    assert all(text.startswith((SAME_ANSWERS, HARDLY_AGREE)) for text in posterior.warnings)


def test_every_view_says_so_first(hopeless, tmp_path):
    path = hopeless.save(tmp_path / "posterior.nc")
    loaded = crowdppl.load(path)
    assert loaded.alert == hopeless.alert
    actions = report.actions(loaded)
    assert report.lines(actions, loaded)[0] == loaded.alert
    page = report.page(loaded)
    assert page.index(NOT_CONVERGED) < page.index("<h1")


def test_too_few_draws_of_a_given_number_are_told(easy):
    posterior = quiet_fit(easy, "dawid-skene", method="gibbs", seed=1, num_samples=20)
    assert "raise num_samples to about" in posterior.alert


@pytest.mark.slow
def test_the_command_leaves_with_a_status_of_its_own(easy, tmp_path):
    """Results are written, every command says so first, and the status is 3."""
    frame = pd.DataFrame(
        {"task": easy.items[easy.item], "worker": easy.workers[easy.worker], "label": easy.labels[easy.label]}
    )
    frame.to_csv(tmp_path / "labels.csv", index=False)
    fits = ("fit", tmp_path / "labels.csv", "--method", "gibbs", "--max-seconds", "0.01", "--report")
    bad = run(*fits, "--out", tmp_path / "r", code=3)
    assert NOT_CONVERGED in " ".join(bad.output.split("What to do")[0].split())
    assert "--max-seconds" in bad.output
    run_facts = json.loads((tmp_path / "r" / "run.json").read_text())
    assert (tmp_path / "r" / "report.html").is_file()
    assert (tmp_path / "r" / "truth.csv").is_file()
    assert not Posterior(crowdppl.load(tmp_path / "r" / "posterior.nc").tree).info["facts"]["converged"]
    assert run_facts
    for words in (("check",), ("next",), ("export",), ("report",)):
        assert " ".join(run(*words, tmp_path / "r").output.split()).startswith(NOT_CONVERGED)
    run("fit", tmp_path / "labels.csv", "--method", "gibbs", "--out", tmp_path / "s")
    assert "3 if the chains have not converged" in " ".join(run("fit", "--help").output.split())


@pytest.mark.parametrize(
    ("together", "after"),
    [(True, 10), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((True, 300), (False, 75)))],
)
def test_a_stopped_run_goes_on_to_the_same_bits(monkeypatch, tmp_path, easy, together, after):
    """Stopped in the warm-up, and after some turns: also where chains take their turns one after the other."""
    monkeypatch.setattr(chains, "CALL", 1)  # a checkpoint after every sweep
    if not together:
        monkeypatch.setattr(choose, "compiled_step", lambda *_: None)
        monkeypatch.setattr(crowdppl.inference.memory, "WORK_BYTES", 1)
    options = {"method": "gibbs", "seed": 7, "chains": 2, "warmup": 60}
    whole = quiet_fit(easy, "dawid-skene", **options)
    with stopping(after), pytest.raises(Stop):
        quiet_fit(easy, "dawid-skene", checkpoint=(tmp_path, 0.0), **options)
    resumed = quiet_fit(easy, "dawid-skene", checkpoint=(tmp_path, 1000.0), **options)
    assert resumed.info["facts"] == whole.info["facts"]
    for name in ("posterior", "truth"):
        for key, value in whole.tree[name].data_vars.items():
            np.testing.assert_array_equal(resumed.tree[name][key].values, value.values)


def test_time_before_a_stop_counts(monkeypatch, tmp_path, easy):
    """A run that was stopped after its time goes on for one turn only."""
    monkeypatch.setattr(chains, "CALL", 1)
    options = {"method": "gibbs", "seed": 7, "warmup": 10, "max_seconds": 100.0}
    with monkeypatch.context() as patched:
        patched.setattr(engine._Run, "clock", lambda self: 1000.0)
        with stopping(40), pytest.raises(Stop):
            quiet_fit(easy, "dawid-skene", checkpoint=(tmp_path, 0.0), **options)
    posterior = quiet_fit(easy, "dawid-skene", checkpoint=(tmp_path, 1000.0), **options)
    assert posterior.info["facts"]["num_samples"] == engine.TURN


def test_progress_says_where_it_stands(easy):
    seen = []
    quiet_fit(
        easy, "dawid-skene", method="gibbs", seed=1, progress=lambda step, steps, what: seen.append((step, steps, what))
    )
    assert all(0 <= step <= steps for step, steps, _ in seen)
    assert seen[0][2] == "warm-up"
    assert any("R-hat" in what and "effective sample size" in what for *_, what in seen)


def test_the_warning_names_the_worst():
    facts = {
        "converged": False,
        "chains": 4,
        "num_samples": 1000,
        "max_seconds": 60.0,
        "r_hat": {"accuracy": 1.002, "truth": 1.04},
        "ess": {"accuracy": 120.0, "truth": 800.0},
        "modes": False,
        "disagreeing_items": 1,
    }
    sentence = warning(facts)
    assert "R-hat of the class probabilities of items is 1.040" in sentence
    assert "the effective sample size of workers' accuracy is 120" in sentence
    assert "disagree about 1 item)" in sentence
    assert sentence.endswith("raise max_seconds to about 240")
    assert warning(facts | {"converged": True}) is None
