"""One normal for all parameters as a guide: correlations of the posterior, networks, and what is refused."""

import numpy as np
import pytest
from catalog import CASES, SHORT, in_turn, quiet_fit, simulated, tiny

import crowdppl
from crowdppl import ModelError
from crowdppl.inference.engines import guides
from crowdppl.models import LogisticRandomEffects

JOINT = ["full-rank", "low-rank"]


@pytest.mark.parametrize(
    ("case", "guide"), in_turn([(case, guide) for case in CASES if "svi" in case.methods for guide in JOINT], 17)
)
def test_every_model(case, guide, tmp_path):
    posterior = quiet_fit(
        tiny(1, classes=case.classes, features=case.features, criteria=case.criteria),
        case.model,
        method="svi",
        **SHORT["svi"] | {"guide": guide},
    )
    assert posterior.kind == "approximation"
    assert "one normal" in posterior.interval_method
    assert "independent of each other" not in posterior.interval_method
    assert np.isfinite(posterior.workers()["accuracy"]).all()
    again = crowdppl.load(posterior.save(tmp_path / "x.nc"))
    assert again.interval_method == posterior.interval_method


@pytest.mark.slow
def test_correlations_are_those_of_the_posterior():
    """Of the common effect and the mean effect of workers, which the data tell apart by their sum: by NUTS below -.2."""
    data = simulated(items=60, workers=5, per_item=4, classes=2, seed=4, features=False)[0]

    def correlation(**options):
        draws = quiet_fit(data, LogisticRandomEffects(), seed=2, **options).tree["posterior"]
        sites = [draws[name] for name in draws.data_vars if name not in ("confusion", "prevalence")]
        flat = np.concatenate([site.values.reshape(site.sizes["chain"] * site.sizes["draw"], -1) for site in sites], 1)
        return np.corrcoef(flat.T)

    exact = correlation(method="nuts", chains=1, warmup=150, num_samples=400)
    off = ~np.eye(len(exact), dtype=bool)
    strong = (np.abs(exact) > 0.5) & off
    assert strong.any()
    for guide in JOINT:
        fitted = correlation(method="svi", guide=guide, max_iter=3000, num_samples=2000)
        assert np.sign(fitted[strong]).tolist() == np.sign(exact[strong]).tolist()
        assert np.abs(fitted[strong]).mean() > 0.5 * np.abs(exact[strong]).mean()
    alone = correlation(method="svi", max_iter=3000, num_samples=2000)
    assert np.abs(alone[strong]).mean() < 0.1


def test_what_is_refused(monkeypatch):
    data = tiny(features=False)
    with pytest.raises(ModelError, match=r"has parameters of items \(easiness\)[^\n]*leave out batch_size"):
        quiet_fit(data, "glad", method="svi", guide="low-rank", batch_size=2)
    monkeypatch.setattr(guides, "FULL_RANK", 3)
    with pytest.raises(ModelError, match="use guide='low-rank'"):
        quiet_fit(data, "one-coin", method="svi", guide="full-rank")
    with pytest.raises(crowdppl.OptionError, match="full-rank"):
        quiet_fit(data, "one-coin", method="svi", guide="fullrank")
