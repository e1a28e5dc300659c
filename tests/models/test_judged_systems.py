"""Judged systems: families, a table by system and judge against plain Python, and recovery from the model's own simulation."""

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import quiet_fit

import crowdppl
from crowdppl.isolation import isolated
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.models import JudgedSystems

SYSTEMS, JUDGES, FAMILIES = 4, 6, 3


def panel(seed, per_system=250, parameters=None, classes=2):
    """Verdicts of all judges on all items, two judges of each family."""
    items = SYSTEMS * per_system
    system = np.arange(items) % SYSTEMS
    item, judge = np.repeat(np.arange(items), JUDGES), np.tile(np.arange(JUDGES), items)
    return crowdppl.simulate(
        JudgedSystems(),
        item,
        judge,
        classes=classes,
        seed=seed,
        parameters=parameters,
        features=np.eye(SYSTEMS)[system],
        worker_features=np.eye(FAMILIES)[np.arange(JUDGES) // 2],
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_log_likelihood_is_that_of_the_story(classes):
    data, _, _ = panel(1, per_system=3, classes=classes)
    with isolated(0), torch.no_grad():
        model = bind(JudgedSystems(), data)
        sites = {name: node["value"] for name, node in check(model, data).items()}
        parameters, _ = model.conditioned(sites, data)
        actual = model.log_likelihoods(parameters, data).numpy()
        prevalence = model.truth(parameters, data).probs.numpy()
    p = {name: value.numpy() for name, value in sites.items()}
    wanted = np.zeros((data.N, classes))
    for i, j, label in zip(data.item.tolist(), data.worker.tolist(), data.label.tolist(), strict=True):
        s = i % SYSTEMS
        for k in range(classes):
            others = [c for c in range(classes) if c != k]
            odds = p["judge_effects"][j, k] + p["system_effects"][s, k] + p["interaction_effects"][j, s, k]
            row = {k: 1.0} | dict(zip(others, np.exp(-odds), strict=True))
            wanted[i, k] += np.log(row[label] / sum(row.values()))
    np.testing.assert_allclose(actual, wanted, rtol=1e-10)
    for i in range(data.N):
        share = np.exp(p["common_prevalence"] + p["system_prevalence"][i % SYSTEMS])
        np.testing.assert_allclose(prevalence[i], share / share.sum(), rtol=1e-10)


def test_families_are_the_means_of_their_judges():
    """The prior of a judge's effects is around those of the family, and without families there is no such site."""
    data, _, _ = panel(2, per_system=3)
    with isolated(0), torch.no_grad():
        nodes = check(bind(JudgedSystems(), data), data)
        family, typical = nodes["family_effects"]["value"], nodes["typical"]["value"]
        of = torch.arange(JUDGES) // 2
        torch.testing.assert_close(nodes["judge_effects"]["fn"].mean, typical + family[of, 0])
        torch.testing.assert_close(nodes["interaction_effects"]["fn"].mean, family[of, 1:])
        alone = crowdppl.simulate(JudgedSystems(), data.item.numpy(), data.worker.numpy(), classes=2, seed=0)[0]
        assert not {"family_effects", "family_scale"} & set(check(bind(JudgedSystems(), alone), alone))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", pytest.param("svi", marks=pytest.mark.longest)])
def test_recovery(method):
    """Prevalences of systems and judges' confusion by system; bounds are about twice the errors seen."""
    rng = np.random.default_rng(0)
    prevalence = rng.normal(0, 0.5, (SYSTEMS, 2))
    values = {
        "common_prevalence": [0.0, 0.3],
        "system_prevalence": prevalence,
        "judge_effects": rng.normal(1.8, 0.5, (JUDGES, 2, 1)),
        "system_effects": rng.normal(0, 0.4, (SYSTEMS, 2, 1)),
        "interaction_effects": rng.normal(0, 0.4, (JUDGES, SYSTEMS, 2, 1)),
    }
    data, truth, _ = panel(3, per_system=400, parameters=values)
    known = pd.Series(truth[::8], index=data.items[::8])
    data = crowdppl.Annotations.from_arrays(
        data.item.numpy(),
        data.worker.numpy(),
        data.label.numpy(),
        labels=range(2),
        truth=known.to_dict(),
        features=data.features.numpy(),
        worker_features=data.worker_features.numpy(),
    )
    posterior = quiet_fit(data, JudgedSystems(), method=method, seed=0, num_samples=50)
    draws = posterior.tree["posterior"]
    odds = np.array(values["common_prevalence"]) + prevalence
    share = np.exp(odds[:, 1]) / np.exp(odds).sum(1)
    error = np.abs(draws["prevalence_of_system"].mean(("chain", "draw")).values[:, 1] - share)
    total = values["judge_effects"][:, None] + values["system_effects"] + values["interaction_effects"]
    correct = 1 / (1 + np.exp(-total[..., 0]))  # (J, S, K)
    rows = draws["confusion_by_system"].mean(("chain", "draw")).values
    off = np.abs(np.einsum("jskk->jsk", rows) - correct)
    assert error.max() < 0.05
    assert off.mean() < 0.05
    assert (posterior.truth()["label"].to_numpy() == truth).mean() > 0.93


def test_one_class_is_refused():
    frame = pd.DataFrame({"task": [1, 1, 2, 2], "worker": ["u", "v"] * 2, "label": "pass"})
    with pytest.raises(crowdppl.ModelError, match=r"the data have one class, pass, and the model needs two"):
        quiet_fit(frame, JudgedSystems(), method="em")
