"""Isolation of fits: random state, parameter store and defaults are restored, and threads share them by a lock.

Torch has one random stream and one default floating type per process, Pyro one stack of handlers, one parameter store and one
validation switch, and Python one list of warning filters. Code of the library that changes any of them holds a re-entrant lock:
fits in several threads run one after another and give the same bits as alone. A child process created by ``fork`` during a fit
starts with the state before that fit.

Torch and Pyro are imported where they are used: importing the library and showing the help of the command need neither.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from crowdppl.isolation.threads import in_child, limited_threads

if TYPE_CHECKING:
    import torch

# Protects global state of the process.
_LOCK = threading.RLock()
# Protects the warning filters, held for a few lines only, so that readers of files need not wait for a fit.
_FILTERS = threading.RLock()
# State of torch's random streams: on the CPU, and on a device.
RandomState: TypeAlias = "tuple[torch.Tensor, torch.Tensor | None]"
# The thread of the active outermost block, and a function that restores the state before it.
_ACTIVE: list[tuple[int, Callable[[], None]]] = []


def in_main_thread() -> bool:
    """Return whether this is the main thread, the only one in which Python can handle signals."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def on_signal(number: int, handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle a signal in a block; without effect outside of the main thread."""
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
    """Delay Ctrl-C until the end of a block, for a few operations that must not be separated."""
    pressed: list[int] = []
    with on_signal(signal.SIGINT, lambda number, frame: pressed.append(number)):
        yield
    for number in pressed:
        signal.raise_signal(number)


@contextmanager
def preserved_warning_filters() -> Iterator[None]:
    """Restore the warning filters at the end of a block, in one thread at a time: the process shares them."""
    with _FILTERS, warnings.catch_warnings():
        yield


@contextmanager
def without_warnings(**filtered: Any) -> Iterator[None]:
    """Ignore warnings of other libraries in a block.

    Args:
        **filtered: ``message`` and ``category`` as in :func:`warnings.filterwarnings`. Defaults to all warnings.
    """
    with preserved_warning_filters():
        warnings.filterwarnings("ignore", **filtered)
        yield


@contextmanager
def isolated(
    seed: int, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None, threads: int | None = None
) -> Iterator[None]:
    """Run a block with its own random stream, an empty Pyro parameter store and a default device and floating type.

    Inside, a model may write ``Normal(0.0, 1.0)`` or ``torch.ones(K)`` and get the type and device of the data. At the
    end, also after an error, the previous state is restored. Other threads wait before entering such a block.

    Args:
        seed: seed of torch's random streams in the block.
        device: default device of tensors in the block.
        dtype: default floating type of tensors in the block. Defaults to float64.
        threads: number of threads of torch's operations in the block, at most. Defaults to that outside; see
            :func:`crowdppl.isolation.threads.limited_threads`.
    """
    import pyro
    import torch

    device = torch.device(device)
    # A default device slows down every operation: set it only if it differs.
    default_device = nullcontext() if device.type == "cpu" else device
    with (
        _LOCK,
        _restorable(),
        limited_threads(threads),
        _streams(device),
        pyro.get_param_store().scope(),
        # Distributions would check every argument at every step; a model is checked once, before the fit.
        pyro.validation_enabled(False),
        _floating(torch.float64 if dtype is None else dtype),
        default_device,
    ):
        seed_streams(seed, device)
        yield


def seed_streams(seed: int, device: torch.device) -> None:
    """Seed torch's random streams on the CPU and, where it is another one, on a device; those of other devices go on."""
    import torch

    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        start = torch.Generator(device).manual_seed(seed)
        set_random_state((torch.get_rng_state(), start.get_state()), device)


def random_state(device: torch.device) -> RandomState:
    """Return the state of torch's random streams on the CPU and, where it is another one, on a device."""
    import torch

    there = None if device.type == "cpu" else _module(device).get_rng_state(device)
    return torch.get_rng_state(), there


@contextmanager
def streams_kept(device: torch.device, seed: int | None = None) -> Iterator[None]:
    """Let torch's random streams on the CPU and a device go on after a block as if nothing had been drawn in it.

    Args:
        device: where the block computes.
        seed: of the streams within the block. Defaults to what they are.
    """
    before = random_state(device)
    try:
        if seed is not None:
            seed_streams(seed, device)
        yield
    finally:
        set_random_state(before, device)


def set_random_state(state: RandomState, device: torch.device) -> None:
    """Continue random streams from a state that :func:`random_state` returned.

    On another kind of device than that of the state only the stream of the CPU goes on.
    """
    import torch

    torch.set_rng_state(state[0])
    if state[1] is not None and device.type != "cpu":
        _module(device).set_rng_state(state[1], device)


def _module(device: torch.device) -> Any:
    """Return torch's module of a kind of device, such as ``torch.cuda``, which holds its random streams."""
    import torch

    return getattr(torch, device.type)


@contextmanager
def _streams(device: torch.device) -> Iterator[None]:
    """Restore torch's random streams at the end of a block."""
    before = random_state(device)
    try:
        yield
    finally:
        set_random_state(before, device)


@contextmanager
def floating(dtype: torch.dtype) -> Iterator[None]:
    """Make tensors of a floating type by default in a block: one thread at a time."""
    with _LOCK, _floating(dtype):
        yield


@contextmanager
def _floating(dtype: torch.dtype) -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def _restorable() -> Iterator[None]:
    """Register, in the outermost block, how a forked child restores the state; the parent restores it itself."""
    import pyro
    import torch
    from pyro.poutine import runtime

    if _ACTIVE:
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

    _ACTIVE.append((threading.get_ident(), restore))
    try:
        yield
    finally:
        _ACTIVE.clear()


def _in_child() -> None:
    """Restore the state in a child created by ``fork``, in which only the forking thread exists."""
    global _LOCK, _FILTERS
    in_child()
    _LOCK, _FILTERS = threading.RLock(), threading.RLock()
    if _ACTIVE and _ACTIVE[0][0] != threading.get_ident():
        _ACTIVE.pop()[1]()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
