"""Long fits that are stopped go on where they were: the state of an engine on disk, whole or not there.

An engine calls :meth:`Checkpoint.step` where it could be taken up again, with a function that returns its state: named
tensors, and facts that JSON holds. It is written every so many seconds, as one safetensors file, beside a digest of what is
being fitted. The state holds the random streams, so that a fit that was stopped ends with the same bits as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from crowdppl.arguments import at_least_zero
from crowdppl.data.annotations import Annotations
from crowdppl.errors import FileError, warn
from crowdppl.files import atomic
from crowdppl.inference.fingerprint import described
from crowdppl.isolation import on_signal

State = tuple[dict[str, Tensor], dict[str, Any]]
NAME = "checkpoint.safetensors"
EVERY = 60.0
_RANDOM, _RANDOM_CUDA = "random", "random cuda"
# Raised where an engine comes to keep another state: those of before are then another fit's.
FORMAT = 3


class Checkpoint:
    """Where the state of a fit is kept.

    Args:
        folder: where to; made if need be. ``None`` keeps nothing.
        identity: digest of what is fitted, see :func:`digest`.
        every: seconds between two writes.

    Raises:
        OptionError: for seconds below 0.
        FileError: where the folder cannot be written, or holds the checkpoint of another fit or a damaged one.
    """

    def __init__(self, folder: str | Path | None = None, identity: str = "", every: float = EVERY):
        every = at_least_zero("every", every)
        self.path = None if folder is None else Path(folder) / NAME
        self.identity, self.every = identity, every
        self.stopping = False
        # Why the last state could not be written, if it could not, and what was said of that.
        self.troubles: list[str] = []
        self.failed: str | None = None
        self._last = time.monotonic()
        self._found: State | None = None
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with atomic(self.path.with_name(".writable")) as probe:
                    probe.write_bytes(b"")
                self.path.with_name(".writable").unlink()
            except FileError as error:
                raise FileError(f"the checkpoint's folder cannot be written to: {error}") from None
            except OSError as error:
                raise FileError(f"cannot write in {self.path.parent}: {error.strerror}") from None
            self._found = self._read(self.path)

    def _read(self, path: Path) -> State | None:
        if not path.is_file():
            return None
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                told = json.loads((file.metadata() or {})["crowdppl"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
                identity, facts = told["identity"], told["facts"]
        except (OSError, KeyError, TypeError, ValueError, safetensors.SafetensorError) as error:
            raise FileError(
                f"{path} is not a checkpoint that can be read ({' '.join(str(error).split())[:80]}); remove it"
            ) from None
        if identity != self.identity:
            raise FileError(
                f"{path} belongs to another fit (other data or floating type, model, network weights, options, seed or "
                f"version); name another folder, or remove it"
            )
        return tensors, facts

    def resume(self, what: str, device: torch.device) -> State | None:
        """Return the state of a stopped fit on a device, once, and set the random streams back; ``None`` to start afresh."""
        found, self._found = self._found, None
        if found is None or found[1].get("what") != what:
            return None
        tensors, facts = found
        torch.set_rng_state(tensors.pop(_RANDOM))
        for number, stream in unpacked(_RANDOM_CUDA, tensors).items():
            if int(number) < torch.cuda.device_count():
                torch.cuda.set_rng_state(stream, int(number))
        return {name: value.to(device) for name, value in tensors.items()}, facts

    def step(self, state: Callable[[], State], what: str) -> None:
        """Write the state if it is time; stop where Ctrl-C was pressed.

        A state that cannot be written, on a full disk for instance, costs a warning and not the fit: the one before stays.

        Raises:
            KeyboardInterrupt: after the state is written; its message says whether that was possible.
        """
        if self.path is None:
            return
        if not self.stopping and time.monotonic() - self._last < self.every:
            return
        self._write(*state(), what, streams())
        if self.stopping:
            raise KeyboardInterrupt(self._kept())

    def stop(self, state: Callable[[], State], what: str, begun: Mapping[str, Tensor], told: str) -> None:
        """Stop where Ctrl-C was pressed, between steps: the state is that of the last step.

        Args:
            state: as of :meth:`step`.
            what: likewise.
            begun: what :func:`streams` returned at the last step.
            told: what will be done again.

        Raises:
            KeyboardInterrupt: after the state is written.
        """
        if self.stopping:
            self._write(*state(), what, begun)
            raise KeyboardInterrupt(f"{self._kept()}; {told}" if self.failed is None else self._kept())

    def _write(
        self, tensors: dict[str, Tensor], facts: dict[str, Any], what: str, random: Mapping[str, Tensor]
    ) -> None:
        assert self.path is not None
        told = {"identity": self.identity, "facts": facts | {"what": what}}
        kept = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()} | dict(random)
        self._last = time.monotonic()
        try:
            with atomic(self.path) as temporary:
                safetensors.torch.save_file(kept, temporary, {"crowdppl": json.dumps(told)})
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

    def _kept(self) -> str:
        """Say what a fit that is stopped now goes on from."""
        assert self.path is not None
        where = f"the same call with the same checkpoint folder continues from {self.path}"
        if self.failed is None and self.path.is_file():
            return where
        if self.failed is None:
            return "no checkpoint had been written yet"
        older = f"; an older one is there: {where}" if self.path.is_file() else ""
        return f"the checkpoint could not be written ({self.failed}){older}"

    def clear(self) -> None:
        """Remove the state: the fit has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Let Ctrl-C stop the engine at its next step, with its state written, or at its end; a second one stops at once.

        Raises:
            KeyboardInterrupt: where it was pressed after the last step.
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
            raise KeyboardInterrupt(self._kept())


# Keeps nothing.
NOTHING = Checkpoint()


def streams() -> dict[str, Tensor]:
    """Return the state of torch's random streams, by the names they are kept under."""
    found = {_RANDOM: torch.get_rng_state()}
    if torch.cuda.is_initialized():
        found |= packed(_RANDOM_CUDA, {str(n): stream for n, stream in enumerate(torch.cuda.get_rng_state_all())})
    return found


def digest(data: Annotations, *words: object) -> str:
    """Return a digest of annotations, with their floating type, and of what is done with them."""
    found = hashlib.sha256(f"{FORMAT} {data.dtype} {described(words)}".encode())
    for name in ("item", "worker", "label", "truth", "features", "worker_features", "multiplicity", "weight", "start"):
        value = getattr(data, name)
        found.update(name.encode())
        if value is not None:
            found.update(value.detach().cpu().contiguous().numpy().tobytes())
    for names in (data.items, data.workers, data.labels):
        found.update(repr(names.tolist()).encode())
    return found.hexdigest()


def packed(prefix: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Name tensors after a prefix, to be told apart in one file."""
    return {f"{prefix}/{name}": value for name, value in values.items()}


def unpacked(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of a prefix by their names."""
    return {name.removeprefix(f"{prefix}/"): value for name, value in tensors.items() if name.startswith(f"{prefix}/")}
