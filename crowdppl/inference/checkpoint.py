"""The state of a stopped fit on disk, from which it continues.

An engine declares its state as a dataclass of tensors, numbers, texts, lists, dictionaries and further dataclasses. It calls
:meth:`Checkpoint.step` wherever it could continue, with a function that returns the state, which is written at intervals as
one safetensors file beside a digest of the fit. The file also holds the random streams, so that a fit that was stopped ends
with the same bits as one that was not.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import signal
import time
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from crowdppl.arguments import Checkpoints
from crowdppl.data.annotations import Annotations
from crowdppl.data.fields import tensors
from crowdppl.data.numeric import NumericAnnotations
from crowdppl.errors import FileError, warn
from crowdppl.files import atomic
from crowdppl.inference.fingerprint import described
from crowdppl.isolation import on_signal, random_state, set_random_state

NAME = "checkpoint.safetensors"
EVERY = 60.0
# Increased when the state of an engine changes: earlier checkpoints then belong to another fit.
FORMAT = 11
CPU = torch.device("cpu")
State = TypeVar("State")


@dataclass
class RandomStreams:
    """The state of torch's random streams.

    Attributes:
        cpu: of the CPU.
        device: of the device of the fit, where that is another one.
    """

    cpu: Tensor
    device: Tensor | None

    @classmethod
    def of(cls, device: torch.device) -> RandomStreams:
        """Return the streams that a fit on a device draws from."""
        return cls(*random_state(device))

    def restore(self, device: torch.device) -> None:
        """Set the streams."""
        set_random_state((self.cpu, self.device), device)


def to_json(value: Any, tensors: dict[str, Tensor], name: str = "") -> Any:
    """Return a state as JSON holds it, and collect its tensors by name.

    Args:
        value: a dataclass, tensor, number, text, list, tuple, dictionary or ``None``, nested to any depth.
        tensors: the state's tensors are added to them.
        name: of the value, in which its parts' names begin.

    Raises:
        TypeError: for a value of another type.
    """
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if dataclasses.is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        return {"fields": {key: to_json(part, tensors, f"{name}/{key}") for key, part in parts.items()}}
    if isinstance(value, dict):
        return {"items": [[key, to_json(part, tensors, f"{name}/{key}")] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        sequence = [to_json(part, tensors, f"{name}/{n}") for n, part in enumerate(value)]
        return sequence if isinstance(value, list) else {"tuple": sequence}
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{name}: a checkpoint cannot hold a {type(value).__name__}")


def from_json(value: Any, tensors: dict[str, Tensor], kind: Any = Any) -> Any:
    """Return the state of what :func:`to_json` has returned.

    Args:
        value: as returned.
        tensors: those of the state by name.
        kind: type of the state; dataclasses are found by it and the annotations of their fields.
    """
    if get_origin(kind) in (Union, types.UnionType):  # of a type and None
        kind = next(part for part in get_args(kind) if part is not type(None))
    parts = get_args(kind) or (Any,)
    if isinstance(value, list):
        return [from_json(part, tensors, parts[0]) for part in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]]
    if "tuple" in value:
        return tuple(from_json(part, tensors) for part in value["tuple"])
    if "items" in value:
        return {key: from_json(part, tensors, parts[-1]) for key, part in value["items"]}
    kinds = get_type_hints(kind)
    return kind(**{key: from_json(part, tensors, kinds[key]) for key, part in value["fields"].items()})


class Checkpoint:
    """The file that holds the state of a fit.

    Args:
        place: folder of the file, which is created if it does not exist, alone or with the seconds between two writes.
            ``None`` saves nothing.
        identity: digest of the fit, see :func:`digest`.
        device: of the fit, whose random stream is kept with that of the CPU. Defaults to the CPU.

    Raises:
        FileError: if the folder cannot be written to, or holds the checkpoint of another fit or a damaged one.
    """

    def __init__(
        self,
        place: Checkpoints | None = None,
        identity: str = "",
        device: torch.device = CPU,
    ):
        folder, every = place if isinstance(place, tuple) else (place, EVERY)
        self.path = None if folder is None else Path(folder) / NAME
        self.identity, self.every, self.device = identity, every, device
        self.stopping = False
        # Warnings that a state could not be written, and why the last one could not.
        self.troubles: list[str] = []
        self.failed: str | None = None
        self._last = time.monotonic()
        self._stored: tuple[dict[str, Tensor], Any] | None = None
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with atomic(self.path.with_name(".writable"), again=True) as probe:
                    probe.write_bytes(b"")
                self.path.with_name(".writable").unlink()
            except FileError as error:
                raise FileError(f"the checkpoint's folder cannot be written to: {error}") from None
            except OSError as error:
                raise FileError(f"cannot write in {self.path.parent}: {error.strerror}") from None
            self._stored = self._read(self.path)

    def _read(self, path: Path) -> tuple[dict[str, Tensor], Any] | None:
        if not path.is_file():
            return None
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                header = json.loads((file.metadata() or {})["crowdppl"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
                identity, content = header["identity"], header["content"]
        except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise FileError(
                f"{path} is not a checkpoint that can be read ({' '.join(str(error).split())[:80]}); remove it"
            ) from None
        if identity != self.identity:
            raise FileError(
                f"{path} belongs to another fit (other data or floating type, model, network weights, options, seed or "
                f"version); name another folder, or remove it"
            )
        return tensors, content

    def resume(self, kind: type[State], device: torch.device) -> State | None:
        """Return the state of a stopped fit and restore the random streams; ``None`` if there is none, or at a second call.

        Args:
            kind: the engine's class of states.
            device: of the state's tensors.
        """
        stored, self._stored = self._stored, None
        if stored is None:
            return None
        tensors, content = stored
        streams: RandomStreams = from_json(content["random"], tensors, RandomStreams)
        streams.restore(self.device)
        moved = {name: value.to(device) for name, value in tensors.items() if name.startswith("state/")}
        state: State = from_json(content["state"], moved, kind)
        return state

    def streams(self) -> RandomStreams:
        """Return the random streams as they are now."""
        return RandomStreams.of(self.device)

    def step(self, state: Callable[[], Any]) -> None:
        """Write the state if it is due; stop if Ctrl-C was pressed.

        A state that cannot be written, for instance on a full disk, costs a warning and not the fit: the one before remains.

        Args:
            state: returns the engine's state, a dataclass.

        Raises:
            KeyboardInterrupt: after the state is written; its message says whether that was possible.
        """
        if self.path is None:
            return
        if not self.stopping and time.monotonic() - self._last < self.every:
            return
        self._write(state(), self.streams())
        if self.stopping:
            raise KeyboardInterrupt(self._outcome())

    def stop(self, state: Callable[[], Any], streams: RandomStreams, repeated: str) -> None:
        """Stop between steps if Ctrl-C was pressed: the state is that of the last step.

        Args:
            state: as for :meth:`step`.
            streams: the random streams at the last step.
            repeated: a clause that says what will be repeated.

        Raises:
            KeyboardInterrupt: after the state is written.
        """
        if self.stopping:
            self._write(state(), streams)
            raise KeyboardInterrupt(f"{self._outcome()}; {repeated}" if self.failed is None else self._outcome())

    def _write(self, state: Any, streams: RandomStreams) -> None:
        assert self.path is not None
        tensors: dict[str, Tensor] = {}
        content = {"state": to_json(state, tensors, "state"), "random": to_json(streams, tensors, "random")}
        tensors = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
        header = json.dumps({"identity": self.identity, "content": content})
        self._last = time.monotonic()
        try:
            with atomic(self.path, again=True) as temporary:
                safetensors.torch.save_file(tensors, temporary, {"crowdppl": header})
        except (FileError, OSError, safetensors.SafetensorError) as error:
            before, self.failed = self.failed, " ".join(str(error).split())[:160]
            if before is None:
                self.troubles.append(
                    f"no checkpoint could be written in {self.path.parent} ({self.failed}); the fit went on, and tried again "
                    f"every {self.every:g} seconds"
                )
                warn(self.troubles[-1])
        else:
            self.failed = None

    def _outcome(self) -> str:
        """Say from what a fit that stops now can continue."""
        assert self.path is not None
        where = f"the same call with the same checkpoint folder continues from {self.path}"
        if self.failed is None and self.path.is_file():
            return where
        if self.failed is None:
            return "no checkpoint had been written yet"
        older = f"; an older one is there: {where}" if self.path.is_file() else ""
        return f"the checkpoint could not be written ({self.failed}){older}"

    def clear(self) -> None:
        """Remove the file, once the fit has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Let Ctrl-C stop the engine at its next step, with its state written, or at its end; a second one stops at once.

        Raises:
            KeyboardInterrupt: if it was pressed after the last step.
        """
        if self.path is None:
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def stop(number: int, frame: Any) -> None:
            self.stopping = True
            signal.signal(signal.SIGINT, before)

        with on_signal(signal.SIGINT, stop):
            yield
        if self.stopping:
            raise KeyboardInterrupt(self._outcome())


# Saves nothing.
NOTHING = Checkpoint()


def digest(data: Annotations, *words: object) -> str:
    """Return a digest of a fit: the annotations with their floating type, and ``words`` that describe what is done with them."""
    known = (
        (data.covariate_names, data.covariate_scales, data.covariate_baselines, data.covariate_values) if data.P else ()
    )
    parts = list(tensors(data).items())
    if data.others is not None:
        parts += [("", part) for part in (data.others.item, data.others.worker, data.others.label)]
    known += () if data.criteria is None else (data.criteria.tolist(),)
    header = f"{data.dtype} {described((*words, *known))}"
    return _hashed(header, parts, (data.items, data.workers, data.labels))


def digest_of_numbers(data: NumericAnnotations, *words: object) -> str:
    """Return a digest of a fit to labels that are numbers, see :func:`digest`."""
    names = (data.items, data.workers)
    return _hashed(described((data.scale, data.feature_names, *words)), data.tensors().items(), names)


def _hashed(header: str, parts: Iterable[tuple[str, Tensor]], names: Iterable[Any]) -> str:
    """Return the digest of a description, tensors by name, and arrays of identifiers."""
    total = hashlib.sha256(f"{FORMAT} {header}".encode())
    for name, value in parts:
        total.update(name.encode())
        total.update(value.detach().cpu().contiguous().numpy().tobytes())
    for one in names:
        total.update(repr(one.tolist()).encode())
    return total.hexdigest()
