"""The footnote of every interval: measured coverage of its own model and engine, or that none was measured."""

import itertools
import json
from pathlib import Path

import pytest
from catalog import SkillAndDifficulty, quiet_fit, tiny

from crowdppl.inference.catalogue import catalogue
from crowdppl.inference.dependence.coverage import cited, measured
from crowdppl.inference.dependence.design_effect import DesignEffect
from crowdppl.inference.run import ENGINES
from crowdppl.models import DawidSkene

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "coverage.md"
FEATURES_PAGE = PAGE.with_name("features-coverage.md")


def test_figures_are_those_of_the_page():
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ][2:]
    with_features = [
        line for line in FEATURES_PAGE.read_text().splitlines() if line.startswith("| features-and-effects |")
    ]
    rows += [[cell.strip() for cell in line.strip("|").split("|")] for line in with_features]
    rows_by_case = {tuple(row[:3]): row[3:] for row in rows}
    figures_by_case = {
        (m, e, kind): one
        for m, engines in measured().items()
        for e, kinds in engines.items()
        for kind, one in kinds.items()
    }
    assert rows_by_case.keys() == figures_by_case.keys()
    for key, one in figures_by_case.items():
        assert rows_by_case[key][1].replace(",", "") == str(one["workers"])
        shares = [one[name] for name in ("share", "share_by_set", "accuracy", "accuracy_by_set")]
        assert rows_by_case[key][2:] == [f"{share:.0%}" for share in shares]
    assert measured().keys() <= catalogue().keys()


@pytest.mark.parametrize("model", [*catalogue(), "SomeonesOwn"])
def test_each_model_and_engine_has_its_own_sentence(model):
    effects = (None, DesignEffect.of_crowds(None, 5.0), DesignEffect(known=0.3))
    for method, effect in itertools.product(ENGINES, effects):
        own_sentence(model, method, effect)


def own_sentence(model, method, effect):
    sentence = cited(model, method, effect)
    figures = measured().get(model, {})
    own = figures.get("gibbs" if method == "nuts" and "gibbs" in figures else method)
    assert f"for {model} by {method}" in sentence
    assert ("not measured" in sentence) == (own is None)
    if own is not None:
        one = own["independent" if effect is None else "default"]
        assert f"correct for {one['share']:.0%} of" in sentence
        assert f"accuracy for {one['accuracy']:.0%}" in sentence
        assert ("too narrow" in sentence) == (min(one["share"], one["accuracy"]) < 0.8)
        assert ("which this fit does not use" in sentence) == (effect == DesignEffect(known=0.3))
        assert ("same posterior" in sentence) == (method == "nuts")


def test_results_cite_their_own():
    data = tiny(seed=1, items=20, workers=4)
    em, gibbs = (quiet_fit(data, "dawid-skene", method=m, num_samples=20, independent=False) for m in ("em", "gibbs"))
    assert "dawid-skene by em:" in em.coverage
    assert "dawid-skene by gibbs:" in gibbs.coverage
    assert em.coverage != gibbs.coverage
    published = quiet_fit(data, "dawid-skene", method="em", num_samples=20)
    assert f"{measured()['dawid-skene']['em']['independent']['share']:.0%}" in published.coverage
    other = quiet_fit(data, DawidSkene(prior_incorrect=3.0), method="em", num_samples=20)
    assert "default priors, which this fit does not use" in other.coverage
    own = quiet_fit(data, SkillAndDifficulty(), method="em", num_samples=20)
    assert "not measured on public data for SkillAndDifficulty by em" in own.coverage
    point = quiet_fit(data, "dawid-skene", method="svi", guide="point", max_iter=20)
    assert point.coverage == ""
    assert json.loads(point.tree.attrs["run"])["method"] == "svi"
