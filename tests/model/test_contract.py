"""What every model and every engine must do, a row of the catalogue each."""

from functools import cache

import arviz_stats
import numpy as np
import pandas as pd
import pyro
import pytest
import torch
import xarray as xr
from catalog import CASES, PAIRS, SHORT, fit, in_turn, quiet_fit, simulated, slow_as_well, tiny, turn
from pyro.distributions import Categorical, Cauchy, Dirichlet, HalfCauchy

import crowdppl
from crowdppl import AnnotationModel, OptionError
from crowdppl.isolation import isolated
from crowdppl.model.base import provides
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.model.program import is_simplex
from crowdppl.models import FeaturesAndEffects
from crowdppl.posterior import schema


def random_start(case):
    """Tell whether a model begins EM at random, or follows gradients over random mini-batches: rows then have their turn."""
    return provides(case.model, "states_per_class") or has_networks(case)


@cache
def has_networks(case):
    """Tell whether a model has networks; each case is asked once, as tests are collected."""
    with isolated(0):
        return bool(case.model.networks(tiny(classes=case.classes, features=case.features, criteria=case.criteria)))


PLAIN = [(case, method) for case, method in PAIRS if method != "nuts" and not has_networks(case)]


@pytest.fixture(scope="module", params=[pytest.param(p.values, id=p.id, marks=p.marks) for p in in_turn(PAIRS, 9)])
def short_fit(request):
    """Return a model, an engine, annotations and the short fit; tests that look at one fit run one after the other."""
    case, method = request.param
    data = tiny(2, classes=case.classes, features=case.features, criteria=case.criteria)
    return case, method, data, quiet_fit(data, case.model, method=method, seed=3, independent=False, **SHORT[method])


def test_result_is_complete(short_fit):
    case, method, data, posterior = short_fit
    tree = posterior.tree
    schema.validate(tree)
    assert {"posterior", "log_likelihood", "observed_data", "constant_data", "sample_stats", "truth"} <= set(
        tree.children
    )
    draws = tree["posterior"]
    assert draws["confusion"].dims == ("chain", "draw", "worker", "true_label", "given_label")
    assert draws["prevalence"].dims == ("chain", "draw", "true_label")
    assert list(draws["worker"].values) == list(data.workers)
    assert list(tree["log_likelihood"]["item"].values) == list(data.items)
    np.testing.assert_allclose(draws["confusion"].sum("given_label"), 1, atol=1e-9)
    np.testing.assert_allclose(draws["prevalence"].sum("true_label"), 1, atol=1e-9)
    np.testing.assert_allclose(tree["truth"]["probability"].sum("true_label"), 1, atol=1e-12)
    for group in tree.children.values():
        for name, values in group.data_vars.items():
            assert np.isfinite(values.values.astype(float)).all(), name
    assert bool(posterior.networks) == (has_networks(case) or isinstance(case.model, FeaturesAndEffects))
    assert posterior.kind in {"em": ("approximation", "point"), "svi": ("approximation", "point")}.get(
        method, ("posterior",)
    )
    # Views
    truth, workers = posterior.truth(), posterior.workers()
    assert list(truth["task"]) == list(data.items)
    shares = [f"p_{k}" for k in range(case.classes)]
    assert (truth[shares].sum(axis=1) - 1).abs().max() < 1e-12
    assert list(workers["annotations"]) == data.annotations_per_worker.tolist()
    for name in ("accuracy", "informativeness", "sensitivity_0"):
        if posterior.kind == "point":
            assert workers[f"{name}_low"].isna().all()
            continue
        assert (workers[f"{name}_low"] <= workers[name] + 1e-9).all()
        assert (workers[name] <= workers[f"{name}_high"] + 1e-9).all()
    assert len(posterior.confusion("worker 0")) == case.classes**2


def test_log_priors_of_sites_add_up(short_fit):
    """Power-scaling takes them one by one; with the likelihoods of items they are the log posterior density."""
    tree = short_fit[3].tree
    total = sum(
        value.sum([axis for axis in value.dims if axis not in ("chain", "draw")])
        for value in tree["log_prior"].values()
    )
    likelihood = tree["log_likelihood"]["labels"].sum("item")
    np.testing.assert_allclose(total + likelihood, tree["sample_stats"]["lp"], rtol=1e-9, atol=1e-6)


def test_a_file_gives_back_the_same(short_fit, tmp_path):
    """To the bit; and ArviZ reads the tree as it is."""
    case, _, _, posterior = short_fit
    tree = posterior.tree
    assert len(arviz_stats.summary(tree, var_names=["prevalence"], kind="stats")) == case.classes
    back = crowdppl.load(posterior.save(tmp_path / "posterior.nc"))
    for name, group in tree.children.items():
        xr.testing.assert_identical(group.to_dataset(), back.tree[name].to_dataset())
    assert back.tree.attrs == tree.attrs
    assert back.workers().equals(posterior.workers())
    assert back.truth().equals(posterior.truth())


def test_same_seed_same_result(short_fit):
    """Bit for bit, also after another fit and another use of torch's random stream in the same process."""
    case, method, data, first = short_fit
    quiet_fit(tiny(3), CASES[0].model, method="svi", seed=1, max_iter=1, num_samples=1)
    state = torch.get_rng_state()
    torch.rand(10)
    again = quiet_fit(data, case.model, method=method, seed=3, independent=False, **SHORT[method])
    torch.set_rng_state(state)
    for name, group in first.tree.children.items():
        xr.testing.assert_identical(group.to_dataset(), again.tree[name].to_dataset())
    other = quiet_fit(data, case.model, method=method, seed=8, independent=False, **SHORT[method])
    same = first.tree["posterior"].to_dataset().identical(other.tree["posterior"].to_dataset())
    assert not same or (
        method == "em" and first.kind == "point"
    )  # a point from the votes, around which nothing is drawn


@pytest.mark.parametrize("case", in_turn([c for c in CASES if "svi" in c.methods], 3))
def test_batches_of_items(case):
    data = tiny(1, items=8, classes=case.classes, features=case.features, criteria=case.criteria)
    posterior = quiet_fit(data, case.model, method="svi", batch_size=3, max_iter=10, num_samples=3)
    assert np.isfinite(posterior.tree["sample_stats"]["loss"]).all()
    assert len(posterior.truth()) == data.N


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_largest_sites_are_checked_at_their_means(case, monkeypatch):
    """Drawing a hundred million probabilities only to look at their shape takes seconds: the same sites are found without."""
    data = tiny(1, items=8, classes=case.classes, features=case.features, criteria=case.criteria)
    with isolated(0):
        model = bind(case.model, data)
        drawn = check(model, model.expand(data))
        monkeypatch.setattr(crowdppl.model.contract, "DRAWN", 1)
        means = check(model, model.expand(data))
    assert drawn.keys() == means.keys()
    for name, node in means.items():
        assert node["value"].shape == drawn[name]["value"].shape
        if is_simplex(node["fn"].support):
            torch.testing.assert_close(node["value"], node["fn"].mean)


def test_what_has_no_mean_is_drawn(monkeypatch):
    class Wide(AnnotationModel):
        def prior(self, data, plates):
            scale = pyro.sample("scale", HalfCauchy(torch.tensor(1.0)))
            where = pyro.sample("where", Cauchy(torch.zeros(2), 1.0).to_event(1))
            return {
                "scale": scale,
                "where": where,
                "prevalence": pyro.sample("prevalence", Dirichlet(torch.ones(data.K))),
            }

        def truth(self, parameters, data):
            return Categorical(parameters["prevalence"])

        def emission(self, parameters, data):
            logit = parameters["where"].sum() / parameters["scale"] + torch.zeros(data.A)
            return Categorical(logits=logit[:, None, None] * torch.eye(data.K))

    monkeypatch.setattr(crowdppl.model.contract, "DRAWN", 1)
    with isolated(0):
        assert set(check(bind(Wide(), tiny()), tiny())) == {"scale", "where", "prevalence"}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_simulation(case):
    first, truth, parameters = simulated(items=40, model=case.model, classes=case.classes)
    again, truth_again, _ = simulated(items=40, model=case.model, classes=case.classes)
    assert torch.equal(first.label, again.label)
    assert np.array_equal(truth, truth_again)
    with isolated(0):
        own_truths = bind(case.model, first).expand(first).parent_item is not None
        sites = check(bind(case.model, first), first)
    assert truth.shape == (first.A if own_truths else 40,)
    assert set(parameters) == set(sites)
    assert 0 <= int(first.label.min()) <= int(first.label.max()) < case.classes


@pytest.mark.parametrize(
    ("case", "method"),
    slow_as_well(
        [
            pytest.param(c, m, marks=turn(n, {"em": 11, "svi": 23}[m]), id=f"{c.name}-{m}")
            for n, c in enumerate(CASES)
            for m in ("em", "svi")
            if m in c.methods and not has_networks(c)
        ],
        "graded-facets-svi",
    ),
)
def test_truth_is_found(case, method):
    """At easy parameters the truth comes out: at least 90% where the best possible is near 97%.

    Models with networks have tests of their own: what they find hangs on the features.
    """
    K = case.classes
    good = 0.8 * np.eye(K) + 0.2 / K
    values = {
        "confusion": np.tile(good, (12, 1, 1)),
        "prevalence": np.array([0.5, 0.3, 0.2][:K]) / sum([0.5, 0.3, 0.2][:K]),
        "rows": np.tile(good[:, None, :], (12, 1, 2, 1)),
        "start": np.array([0.5, 0.3, 0.2][:K]) / sum([0.5, 0.3, 0.2][:K]),
        "emission": np.tile(good, (12, K + 1, 1, 1)),
        "weights": np.full((K, 2), 0.5),
        "knowledge": 0.8,
        "accuracy": np.full(12, 0.85),
        "sensitivity": np.full((12, K), 0.85),
        "common": good,
        "group_confusion": np.tile(good, (2, 1, 1)),
        "skill": np.full(12, 3.0),
        "competence": np.full(12, 3.0),
        "preferences": np.zeros((12, K)),
        "crowd_confusion": np.zeros((K, K)),
        "deviations": np.zeros((12, K, K)),
        "effect_weights": np.array([0.8, 0.2]),
        "difficulty": np.full(200, 1.0),
        "worker_effects": np.tile(3 * np.eye(K), (12, 1, 1)),
        "prototypes": np.stack([good, good, np.full((K, K), 1 / K)]),
        "prototype_weights": np.tile([0.5, 0.45, 0.05], (12, 1)),
        "item_effects": np.zeros((200, K, K) if case.name == "minimax-entropy" else (200, K)),
        "common_prevalence": np.log([0.5, 0.3, 0.2][:K]),
        "system_prevalence": np.zeros((2, K)),
        "judge_effects": np.full((12, K, K - 1), 2.5),
        "system_effects": np.zeros((2, K, K - 1)),
        "interaction_effects": np.zeros((12, 2, K, K - 1)),
    }
    if case.name.startswith("graded-facets"):
        values |= {"log_slope": np.full(12, 3.0), "middle": np.zeros(12), "log_gaps": np.full((12, 1), 3.0)}
    if case.name.startswith("item-"):  # scalars on the scale of log odds
        values |= {"difficulty": np.zeros(200), "ability": np.full((12, K) if "difficulty" in case.name else 12, 2.5)}
    data, truth, _ = simulated(items=200, per_item=6, model=case.model, parameters=values, classes=K)
    posterior = quiet_fit(
        data, case.model, method=method, seed=0, **({"num_samples": 50, "max_iter": 400} if method == "svi" else {})
    )
    assert (posterior.truth()["label"].to_numpy() == truth).mean() > 0.9


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("em", {"chains": 2}, "'em' has no option 'chains'"),
        ("gibbs", {"warm_up": 2}, "did you mean 'warmup'?"),
        ("expectation", {}, "no method 'expectation'"),
        ("em", {"max_iter": 0}, "max_iter=0"),
        ("em", {"max_iter": 2.5}, "max_iter=2.5"),
        ("em", {"tol": -1}, "tol=-1"),
        ("svi", {"learning_rate": 0}, "learning_rate=0"),
        ("svi", {"batch_size": -3}, "batch_size=-3"),
        ("gibbs", {"chains": True}, "chains=True"),
        ("nuts", {"num_samples": "many"}, "num_samples='many'"),
        ("em", {"seed": -1}, "seed=-1"),
        ("em", {"device": "cuda:77" if not torch.cuda.is_available() else "tpu"}, "device"),
        ("em", {"device": "quantum"}, "device='quantum': no such device"),
    ],
)
def test_bad_options_are_refused(method, options, said):
    with pytest.raises(OptionError, match=r"^[^\n]*$") as refused:
        fit(tiny(), method=method, **options)
    assert said in str(refused.value)


def test_unknown_model_is_refused():
    with pytest.raises(OptionError, match=r"did you mean 'dawid-skene'"):
        fit(tiny(), "david-skene")
    with pytest.raises(OptionError, match=r"pass an instance"):
        fit(tiny(), type(CASES[0].model))
    with pytest.raises(crowdppl.ModelError, match="AnnotationModel"):
        fit(tiny(), 3)
    with pytest.raises(crowdppl.DataError, match="Annotations"):
        fit([[1, 2]])


@pytest.mark.parametrize("wrong", ["shape", "missing", "classes", "breaks"])
def test_broken_models_are_told(wrong):
    import pyro
    from pyro.distributions import Categorical, Normal

    class Broken(crowdppl.AnnotationModel):
        def prior(self, data, plates):
            with plates.worker:
                skill = pyro.sample("skill", Normal(0.0, 1.0))
            return {} if wrong == "missing" else {"skill": skill}

        def truth(self, parameters, data):
            return Categorical(logits=torch.zeros(data.K + (wrong == "classes")))

        def emission(self, parameters, data):
            if wrong == "breaks":
                return parameters["ability"]
            logit = parameters["skill"][data.worker]
            size = (data.A, data.K) if wrong == "shape" else (data.A, data.K, data.K)
            return Categorical(logits=logit.view(-1, *[1] * (len(size) - 1)).expand(size))

    with pytest.raises(crowdppl.ModelError, match="Broken"):
        fit(tiny(), Broken(), method="em")


@pytest.mark.parametrize(
    "case", in_turn([c for c in CASES if "em" in c.methods and c.exchangeable and not random_start(c)], 5)
)
def test_permuting_the_rows_permutes_nothing_else(case):
    data, _, _ = simulated(items=30, classes=case.classes)
    order = np.random.default_rng(0).permutation(data.A)
    columns = (data.items[data.item], data.workers[data.worker], data.labels[data.label])
    mixed = crowdppl.Annotations.from_arrays(*(c[order] for c in columns), labels=range(case.classes))
    features = pd.DataFrame(data.features.numpy(), index=data.items)
    mixed = mixed.with_features(features)
    closed = "gibbs" in case.methods
    tol = 1e-12 if closed else 1e-9
    one, two = (quiet_fit(d, case.model, method="em", tol=tol, num_samples=2) for d in (data, mixed))
    columns = ["probability", *(f"p_{k}" for k in range(case.classes))]
    a, b = (p.truth().set_index("task")[columns].sort_index() for p in (one, two))
    # Models without a closed M step are fitted by a line search, which sums in another order: a looser bound.
    np.testing.assert_allclose(a, b, atol=1e-8 if closed else 2e-3)


@pytest.mark.parametrize(("case", "method"), in_turn(PLAIN, 4))
def test_log_posterior_of_each_draw(case, method):
    """``lp`` is the log density of that draw's labels and parameters, as the trace of the story gives them, draw by draw."""
    data = tiny(2, classes=case.classes, features=case.features, criteria=case.criteria)
    posterior = quiet_fit(data, case.model, method=method, seed=3, **SHORT[method])
    draws, lp = posterior.tree["posterior"], posterior.tree["sample_stats"]["lp"].values
    with isolated(0, dtype=torch.float64):
        sites, layout = check(bind(case.model, data), data), bind(case.model, data).expand(data)
        for c, s in np.ndindex(*lp.shape):
            if s % 7:
                continue
            values = {name: torch.from_numpy(np.array(draws[name].values[c, s])) for name in sites}
            parameters, log_prior = bind(case.model, data).conditioned(values, layout)
            joint = bind(case.model, data).item_log_joint(parameters, layout)
            assert lp[c, s] == pytest.approx(float(joint.logsumexp(-1).sum() + log_prior), abs=1e-8)
