"""An accelerator without hardware: tensors that say they are on another device, and hold numbers on the CPU.

As on CUDA, an operation on tensors of both devices raises, but for numbers without axes and for indices. Reads of the host are
counted, since each of them waits for all that was asked of a real device before. The device has a random stream of its own.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

# A device that torch knows and computes nothing on.
DEVICE = torch.device("meta")
READS = {"_local_scalar_dense", "is_nonzero", "equal"}
# Operations whose result has a size that only the numbers tell.
SIZED = {"bincount", "nonzero", "_unique2", "unique_dim", "unique_consecutive", "masked_select"}
MATMUL = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}
CREATES = {torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor}


class MixedDevicesError(RuntimeError):
    """Raised for an operation on tensors of both devices."""


class Elsewhere(torch.Tensor):
    """A tensor on the device; ``held`` are its numbers."""

    @staticmethod
    def __new__(cls, held):
        strided = held.layout == torch.strided
        return torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride() if strided else None,
            storage_offset=held.storage_offset() if strided else None,
            dtype=held.dtype,
            device=DEVICE,
        )

    def __init__(self, held):
        self.held = held

    def __repr__(self, **_):
        return f"Elsewhere({self.held})"

    def tolist(self):
        """Read the numbers."""
        Device.current.read("tolist")
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return Device.current.run(function, args, kwargs or {})


def is_elsewhere(device: object) -> bool:
    """Tell whether this names the device."""
    return device is not None and torch.device(device).type == DEVICE.type


def held(value):
    """Return the numbers of a tensor, or any other value as it is."""
    return value.held if isinstance(value, Elsewhere) else value


def moved(value):
    """Return a tensor of the CPU as one of the device."""
    return Elsewhere(value) if isinstance(value, torch.Tensor) and not isinstance(value, Elsewhere) else value


class Device(TorchDispatchMode):
    """Runs operations on the tensors of the device.

    Attributes:
        reads: how often the host waited for numbers, by the place in the library that asked.
        stream: state of its random stream.
    """

    current: Device

    def __init__(self):
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.stream = torch.Generator().manual_seed(0).get_state()

    def read(self, operation: str) -> None:
        """Count a read by the nearest place in the library."""
        for frame in reversed(traceback.extract_stack()):
            if "/crowdppl/" in frame.filename:
                self.reads[f"{frame.filename.rpartition('/crowdppl/')[2]}:{frame.lineno} {operation}"] += 1
                return
        self.reads[f"elsewhere: {operation}"] += 1

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return self.run(function, args, kwargs or {})

    def get_rng_state(self, device=None):
        """Return the state of the random stream, as ``torch.cuda.get_rng_state`` does."""
        return self.stream.clone()

    def set_rng_state(self, state, device=None):
        """Set it."""
        self.stream = state.clone()

    def run(self, function, args, kwargs):
        """Run one operation; what it draws on the device comes from the stream there."""
        here = is_elsewhere(kwargs.get("device")) or any(isinstance(part, Elsewhere) for part in tree_flatten(args)[0])
        draws = here and torch.Tag.nondeterministic_seeded in function.tags and kwargs.get("generator") is None
        if not draws:
            return self._run(function, args, kwargs)
        cpu = torch.get_rng_state()
        torch.set_rng_state(self.stream)
        try:
            return self._run(function, args, kwargs)
        finally:
            self.stream = torch.get_rng_state()
            torch.set_rng_state(cpu)

    def _run(self, function, args, kwargs):
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
        there = [value for value in tensors if isinstance(value, Elsewhere)]
        here = [value for value in tensors if not isinstance(value, Elsewhere)]
        name = getattr(getattr(function, "overloadpacket", function), "__name__", str(function))
        numbers, options = tree_map(held, args), tree_map(held, kwargs)
        repeats = name == "repeat_interleave" and kwargs.get("output_size") is None
        if there and (name in READS or name in SIZED or repeats or (name == "index" and self._by_mask(args))):
            self.read(name)
        if name in READS:
            return function(*numbers, **options)
        if name == "_to_copy":
            target = options.pop("device", None) or args[0].device
            out = function(*numbers, **options)
            if is_elsewhere(target):
                return moved(out)
            if there:
                self.read("copy to the host")
            return out
        if name == "copy_":
            if there and not isinstance(args[0], Elsewhere):
                self.read("copy to the host")
            numbers[0].copy_(numbers[1])
            return args[0]
        if is_elsewhere(kwargs.get("device")):
            out = function(*numbers, **(options | {"device": "cpu"}))
            return tree_map(moved, out)
        if not there:
            return function(*args, **kwargs)
        mixed = [value for value in here if value.dim()]
        if name in ("index", "_unsafe_index"):  # which CUDA allows by indices of the CPU
            mixed = []
        elif name in ("index_put", "index_put_", "_index_put_impl_"):
            mixed = [value for value in (args[2],) if not isinstance(value, Elsewhere) and value.dim()]
        if mixed:
            raise MixedDevicesError(f"{name} of tensors of two devices: {[tuple(value.shape) for value in tensors]}")
        if "sparse" in name:
            options.pop("device", None)
        out = function(*numbers, **options)
        if name.endswith("_") and not name.endswith("__") and isinstance(args[0], Elsewhere):
            return args[0]
        return kwargs["out"] if "out" in kwargs else tree_map(moved, out)

    @staticmethod
    def _by_mask(args) -> bool:
        return any(
            isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1] or []
        )


class Made(TorchFunctionMode):
    """Makes tensors of the device from numbers: torch writes those on the CPU first, and its fast paths ask no one."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function in CREATES and is_elsewhere(kwargs.get("device")):
            if isinstance(args[0], Elsewhere):
                del kwargs["device"]
                return function(*args, **kwargs)
            gradient = kwargs.pop("requires_grad", False)
            out = moved(function(*args, **(kwargs | {"device": "cpu"})).detach())
            return out.requires_grad_(True) if gradient else out
        if function is torch.Tensor.new_tensor and isinstance(args[0], Elsewhere):
            kwargs.pop("device", None)
            return moved(torch.tensor(*args[1:], device="cpu", **({"dtype": args[0].dtype} | kwargs)))
        if function is torch.Tensor.to_dense and isinstance(args[0], Elsewhere):
            return moved(args[0].held.to_dense()) if args[0].held.layout != torch.strided else args[0]
        if function is torch.Tensor.__getitem__ and isinstance(args[0], Elsewhere) and isinstance(args[1], list):
            return function(args[0], torch.tensor(args[1], device="cpu"))
        if function in MATMUL and isinstance(args[0], Elsewhere) and args[0].dim() == 1:
            # Torch takes the axis that it has added away in place, which changes the shape of what is held alone.
            return function(args[0].unsqueeze(0), *args[1:]).squeeze(-2 if args[1].dim() > 1 else 0)
        return function(*args, **kwargs)


class Generator(torch.Generator):
    """A generator, for the device of the same kind as on the CPU."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, "cpu" if is_elsewhere(device) else device)


@contextmanager
def counterfeit() -> Iterator[Device]:
    """Let ``device="meta"`` stand for an accelerator; yield what counts the reads of the host."""
    Device.current = device = Device()
    streams = mock.patch.multiple(torch, create=True, Generator=Generator, **{DEVICE.type: device})
    # Tensors made in inference mode are never seen by a dispatch mode.
    plain = mock.patch.object(torch, "inference_mode", lambda mode=True: torch.no_grad() if mode else nullcontext())
    with plain, streams, Made(), device:
        yield device
