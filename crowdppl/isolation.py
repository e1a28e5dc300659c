"""A fit leaves no trace: random state, parameter store and defaults are restored; threads take turns at what they share.

Torch has one random stream and one default floating type for the whole process, Pyro one stack of handlers, one parameter store
and one switch for validation, and Python one list of warning filters. Whatever of the library changes one of them holds one
re-entrant lock for as long: fits in several threads run one after another, and each gives the bits that it gives alone. A child
made by ``fork`` starts from what the process had before the fit that was under way, if one was.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyro
import torch
from pyro.poutine import runtime

# Held by whoever changes what the process has once.
_LOCK = threading.RLock()
# Held by whoever changes the filters of warnings, for a few lines: readers of files do not wait for a fit.
_FILTERS = threading.RLock()
# How to restore what the outermost block under way has changed, and the thread that runs it.
_UNDER_WAY: list[tuple[int, Callable[[], None]]] = []


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
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the end of a block: for a few operations that belong together."""
    pressed: list[int] = []
    with on_signal(signal.SIGINT, lambda number, frame: pressed.append(number)):
        yield
    for number in pressed:
        signal.raise_signal(number)


@contextmanager
def preserved_warning_filters() -> Iterator[None]:
    """Restore the filters of warnings, which are the process's, at the end of a block: one thread at a time."""
    with _FILTERS, warnings.catch_warnings():
        yield


@contextmanager
def without_warnings(**filtered: Any) -> Iterator[None]:
    """Ignore warnings of other libraries in a block.

    Args:
        **filtered: ``message`` and ``category`` as of :func:`warnings.filterwarnings`; all warnings without them.
    """
    with preserved_warning_filters():
        warnings.filterwarnings("ignore", **filtered)
        yield


def _in_other_thread(function: Callable[[], Any]) -> Any:
    """Return what a function returns in a new thread."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Let torch's operations in this thread, and in no other, take so many threads.

    Torch keeps a number for each thread and one that new threads begin with; it sets both at once.
    """
    if count is None or count == torch.get_num_threads():
        yield
        return
    own, others = torch.get_num_threads(), _in_other_thread(torch.get_num_threads)
    try:
        torch.set_num_threads(count)
        _in_other_thread(lambda: torch.set_num_threads(others))
        yield
    finally:
        torch.set_num_threads(own)
        if own != others:
            _in_other_thread(lambda: torch.set_num_threads(others))


@contextmanager
def isolated(
    seed: int, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64, threads: int | None = None
) -> Iterator[None]:
    """Run a block with its own random stream, an empty Pyro parameter store and a default device and floating type.

    Inside, a model may write ``Normal(0.0, 1.0)`` or ``torch.ones(K)`` and get the type and device of the data. On leaving,
    also by an error, everything is as before. Other threads wait to enter such a block until this one is left.

    Args:
        seed: of torch's random streams in the block.
        device: default device of tensors made in the block.
        dtype: default floating type of tensors made in the block.
        threads: of torch's operations in the block. Defaults to as many as outside.
    """
    device = torch.device(device)
    # A default device costs a little at every operation: not set where it is the default anyway.
    place = nullcontext() if device.type == "cpu" else device
    cuda = [device] if device.type == "cuda" else []
    with (
        _LOCK,
        _restorable(),
        _threads(threads),
        torch.random.fork_rng(devices=cuda),
        pyro.get_param_store().scope(),
        # Distributions check every argument at every step; a model is checked once, before it is fitted.
        pyro.validation_enabled(False),
        _floating(dtype),
        place,
    ):
        torch.manual_seed(seed)
        yield


@contextmanager
def floating(dtype: torch.dtype) -> Iterator[None]:
    """Make tensors of a floating type by default in a block: one thread at a time."""
    with _LOCK, _floating(dtype):
        yield


@contextmanager
def _floating(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _restorable() -> Iterator[None]:
    """Remember, in the outermost block, how a forked child restores what the block changes; the parent does so by itself."""
    if _UNDER_WAY:
        yield
        return
    floating, stream = torch.get_default_dtype(), torch.get_rng_state()
    handlers, plates = list(runtime._PYRO_STACK), list(runtime._DIM_ALLOCATOR._stack)
    store = pyro.get_param_store().get_state()
    validation = (pyro.distributions, pyro.infer, pyro.poutine)
    validated = [part.is_validation_enabled() for part in validation]

    def restore() -> None:
        torch.set_default_dtype(floating)
        torch.set_rng_state(stream)
        runtime._PYRO_STACK[:] = handlers
        runtime._DIM_ALLOCATOR._stack[:] = plates
        pyro.get_param_store().clear()
        pyro.get_param_store().set_state(store)
        for part, enabled in zip(validation, validated, strict=True):
            part.enable_validation(enabled)

    _UNDER_WAY.append((threading.get_ident(), restore))
    try:
        yield
    finally:
        _UNDER_WAY.clear()


def _in_child() -> None:
    """Make a child of ``fork`` usable: only the thread that forked lives on in it."""
    global _LOCK, _FILTERS
    # Where the parent has computed in several threads, the first parallel operation of the child would wait for them for ever.
    torch.set_num_threads(1)
    _LOCK, _FILTERS = threading.RLock(), threading.RLock()
    if _UNDER_WAY and _UNDER_WAY[0][0] != threading.get_ident():
        _UNDER_WAY.pop()[1]()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
