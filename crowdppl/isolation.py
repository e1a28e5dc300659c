"""A fit leaves no trace: random state, parameter store and defaults are put back as they were."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyro
import torch


def in_main_thread() -> bool:
    """Tell whether this is the main thread, where alone Python lets signals be handled."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def on_signal(number: int, handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle a signal in a block; in the main thread, else not."""
    if not in_main_thread():
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def isolated(
    seed: int, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64, threads: int | None = None
) -> Iterator[None]:
    """Run a block with its own random stream, an empty Pyro parameter store and a default device and floating type.

    Inside, a model may write ``Normal(0.0, 1.0)`` or ``torch.ones(K)`` and get the type and device of the data. On leaving,
    also by an error, everything is as before.

    Args:
        seed: of torch's random streams in the block.
        device: default device of tensors made in the block.
        dtype: default floating type of tensors made in the block.
        threads: of torch's operations in the block, where given.
    """
    device = torch.device(device)
    before, threads_before = torch.get_default_dtype(), torch.get_num_threads()
    # A default device costs a little at every operation: not set where it is the default anyway.
    place = nullcontext() if device.type == "cpu" else device
    cuda = [device] if device.type == "cuda" else []
    with (
        torch.random.fork_rng(devices=cuda),
        pyro.get_param_store().scope(),
        # Distributions check every argument at every step; a model is checked once, before it is fitted.
        pyro.validation_enabled(False),
        place,
    ):
        torch.set_default_dtype(dtype)
        torch.manual_seed(seed)
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_default_dtype(before)
            if threads is not None:
                torch.set_num_threads(threads_before)
