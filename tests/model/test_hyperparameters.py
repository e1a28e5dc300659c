"""What the fields of the models mean, and which values they refuse: for every model of the zoo that has them."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from catalog import CASES, quiet_fit, simulated, tiny

from crowdppl import ModelError
from crowdppl.isolation import isolated
from crowdppl.model.base import provides
from crowdppl.model.bound import bind
from crowdppl.model.contract import check
from crowdppl.model.hyperparameters import described
from crowdppl.models import CATALOGUE, OrdinalThresholds

ZOO = [kind() for kind in CATALOGUE.values()]
NUMBERS = [
    (model, field.name)
    for model in ZOO
    for field in dataclasses.fields(model)
    if isinstance(getattr(model, field.name), float) or (field.name == "prior_correct" and model.prior_correct is None)
]


def names(model):
    return {field.name for field in dataclasses.fields(model)}


@pytest.mark.parametrize(("model", "field"), NUMBERS, ids=[f"{type(m).__name__}-{f}" for m, f in NUMBERS])
def test_bad_numbers_are_refused(model, field):
    """One line that names the model, the field and the value."""
    for value in (-0.5, math.inf, math.nan):
        refuses(model, field, value)


def refuses(model, field, value):
    if field == "prior_members" and type(model).__name__ != "CrowdMixture" and value == -0.5:
        assert dataclasses.replace(model, prior_members=value).prior_members == value  # above -1: fewer groups
        value = -1.0
    with pytest.raises(ModelError, match=r"^[^\n]*$") as refused:
        dataclasses.replace(model, **{field: value})
    for part in (type(model).__name__, field, str(value)):
        assert part in str(refused.value)


@pytest.mark.parametrize("model", [m for m in ZOO if hasattr(m, "maximum_likelihood")], ids=lambda m: type(m).__name__)
def test_maximum_likelihood_has_flat_priors(model):
    """All pseudo-counts at zero: the log prior is the same everywhere."""
    flat = type(model).maximum_likelihood()
    assert {
        getattr(flat, name)
        for name in names(flat) & {"prior_correct", "prior_incorrect", "prior_items", "prior_known", "prior_guesses"}
    } == {0.0}
    data = tiny(0)
    with isolated(0), torch.no_grad():
        densities = []
        for _ in range(3):
            sites = {name: node["value"] for name, node in check(bind(flat, data), data).items()}
            densities.append(float(bind(flat, data).conditioned(sites, data)[1]))
        assert np.ptp(densities) < 1e-9


def posterior_of(model, data):
    method = "em" if model.check_method("em") is None else "gibbs"
    options = {"num_samples": 20, "max_iter": 50} if method == "em" else {"chains": 1, "warmup": 50, "num_samples": 50}
    if method == "em" and "steps" in model.engine_defaults.get("em", {}):
        options |= {"steps": 20, "fine_tune": 0}
    return quiet_fit(data, model, method=method, **options)


WITH_ROWS = [m for m in ZOO if {"prior_correct", "prior_incorrect"} <= names(m)]


@pytest.mark.parametrize("model", WITH_ROWS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("field", "diagonal"), [("prior_correct", 1.0), ("prior_incorrect", 0.0)])
def test_a_million_pseudo_counts_decide_the_rows(model, field, diagonal):
    """A million right ones: nobody errs. A million wrong ones: nobody is ever right, and errs evenly.

    The rows that are looked at are what the prior is put on: a worker's, a class's, a group's or the crowd's.
    """
    data, _, _ = simulated(items=40, seed=1)
    strong = dataclasses.replace(model, **{field: 1e6})
    with isolated(0):
        bound = bind(strong, data)
        layout = bound.expand(data)
        sites = {name: node["value"] for name, node in check(bound, layout).items()}
    rows = next(
        sites[name]
        for name in ("rows", "typical", "group_confusion", "common", "sensitivity", "accuracy", "confusion", "emission")
        if name in sites
    )
    rows = rows.flatten(0, 1) if "emission" in sites else rows  # of each worker after each label
    if rows.dim() < 2 or rows.shape[-1] != data.K or rows.shape[-1] != rows.shape[-2 if rows.dim() < 4 else -3]:
        assert float((rows - diagonal).abs().max()) < 0.01  # probabilities of the correct label alone
        return
    table = rows if rows.dim() < 4 else rows.transpose(-2, -3)[..., 0, :, :, :]
    right = torch.diagonal(table, dim1=-2, dim2=-1)
    assert float((right - diagonal).abs().max()) < 0.01
    away = table[..., ~torch.eye(data.K, dtype=torch.bool)]
    assert float((away - (1 - diagonal) / (data.K - 1)).abs().max()) < 0.01


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(m, id=type(m).__name__, marks=[pytest.mark.slow] * isinstance(m, OrdinalThresholds))
        for m in ZOO
        if "prior_items" in names(m)
    ],
)
def test_pseudo_items_even_out_the_prevalence(model):
    items = 20 if isinstance(model, OrdinalThresholds) else 60  # each step of these searches a line
    data, _, _ = simulated(items=items, seed=1, parameters={"prevalence": [0.8, 0.1, 0.1]})
    plain, even = (
        posterior_of(dataclasses.replace(model, prior_items=n), data).prevalence()["share"] for n in (0.0, 1e6)
    )
    np.testing.assert_allclose(even, 1 / 3, atol=0.01)
    assert plain.max() > 0.5


@pytest.mark.parametrize("case", [c for c in CASES if "gibbs" in c.methods], ids=lambda c: c.name)
def test_numbers_keep_the_type_of_the_data(case):
    """float32 data give float32 parameters, densities and draws, whatever the default type of the process is."""
    data, _, _ = simulated(items=30, classes=case.classes)
    data = data.to(dtype=torch.float32)
    with isolated(0, dtype=torch.float32):
        sites = {name: node["value"] for name, node in check(bind(case.model, data), data).items()}
    with isolated(0), torch.no_grad():  # default: float64
        start = case.model.initial(data)
        assert start.dtype == torch.float32
        joint, log_prior = bind(case.model, data).log_density(sites, data)
        assert joint.dtype == log_prior.dtype == torch.float32
        truth = joint.argmax(-1).expand(2, -1)
        leading = {name: value.expand(2, *value.shape) for name, value in sites.items()}
        for name, value in bind(case.model, data).gibbs_step(truth, leading, data).items():
            assert value.dtype in (torch.float32, torch.int64), name
            assert value.shape == (2, *sites[name].shape), name
        if provides(case.model, "m_step"):
            for name, value in bind(case.model, data).m_step(start, data).items():
                assert value.dtype == (torch.float32 if sites[name].is_floating_point() else torch.int64), name
                assert value.shape == sites[name].shape, name
        assert bind(case.model, data).truths.confusion(sites, data).dtype == torch.float32
        assert bind(case.model, data).truths.prevalence(sites, data).dtype == torch.float32


def test_every_hyperparameter_is_explained():
    """What `crowdppl models NAME` prints of each comes from the model's docstring."""
    for kind in CATALOGUE.values():
        layout = described(kind)
        assert set(layout) == {field.name for field in dataclasses.fields(kind)}
        assert all(len(words) > 10 for words in layout.values()), kind
