"""How many draws a fit keeps, and the bytes of its result, as they are known before it."""

import pytest
from catalog import quiet_fit, simulated

from crowdppl.errors import OptionError
from crowdppl.inference import memory
from crowdppl.inference.memory import most_draws, result_bytes
from crowdppl.posterior.io import HEADERS


@pytest.mark.parametrize(
    ("method", "options", "kept"),
    [
        ("em", {}, 1000),
        ("em", {"num_samples": 7}, 7),
        ("svi", {"num_samples": 7, "max_iter": 20}, 7),
        ("gibbs", {"num_samples": 7, "warmup": 5}, 28),
        ("gibbs", {"num_samples": 7, "warmup": 5, "chains": 3}, 21),
        ("gibbs", {"chains": 3}, 1002),
        ("nuts", {"num_samples": 7, "warmup": 5, "chains": 2}, 14),
    ],
)
def test_draws_kept_by_each_engine(method, options, kept, tmp_path):
    data = simulated(items=40, seed=1)[0]
    posterior = quiet_fit(data, "dawid-skene", method=method, seed=1, independent=False, **options)
    sizes = posterior.tree["posterior"].sizes
    assert most_draws(method, options) == kept
    # Until it converges a sampler may keep fewer.
    assert sizes["chain"] * sizes["draw"] == kept or ("num_samples" not in options and sizes["draw"] <= kept // 3)
    size = sum(node.to_dataset(inherit=False).nbytes for node in posterior.tree.subtree)
    assert size <= result_bytes(data, kept)
    small = result_bytes(data, kept, "small")
    assert posterior.save(tmp_path / "p.nc").stat().st_size <= small + HEADERS
    assert small <= result_bytes(data, kept)


def test_small_files_need_less_room(tmp_path):
    data = simulated(items=500, workers=60, per_item=6, classes=5, seed=1)[0]
    posterior = quiet_fit(data, "dawid-skene", method="gibbs", chains=2, num_samples=500, warmup=20, independent=False)
    small = result_bytes(data, 1000, "small")
    assert posterior.save(tmp_path / "p.nc").stat().st_size <= small < result_bytes(data, 1000) / 2


def test_of_options_that_a_fit_refuses():
    """The fit says what is wrong with them."""
    assert most_draws("gibbs", {"chains": 0, "num_samples": 5}) == 5
    with pytest.raises(OptionError, match="no method 'gibs'"):
        most_draws("gibs", {})


@pytest.mark.parametrize(
    ("operations", "options", "kept"), [(10, {}, 200), (10, {"num_samples": 7}, 7), (10**9, {}, 1000)]
)
def test_draws_that_take_long_are_fewer_unless_their_number_is_given(monkeypatch, operations, options, kept):
    monkeypatch.setattr(memory, "OPERATIONS", operations)
    posterior = quiet_fit(simulated(items=20, seed=1)[0], method="em", seed=1, **options)
    assert posterior.tree["posterior"].sizes["draw"] == kept
    assert not any("to stay within" in warning for warning in posterior.warnings)


def test_as_many_draws_as_a_second_of_operations():
    """In between, the more operations one takes, the fewer."""
    data = simulated(items=20, seed=1)[0]
    each = memory.OPERATIONS // 500
    states = (each - 20 * data.N * data.K - 20 * data.J * data.K**2) // (data.A + 2 * data.J * data.K)
    assert memory.sufficient(states, data) in (500, 501)
    assert memory.sufficient(3 * states, data) == memory.LEAST
    assert memory.sufficient(2, data) == memory.KEPT
