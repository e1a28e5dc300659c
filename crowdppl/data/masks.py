"""Segmentations of one image by several raters, as patterns of votes: elements with the same votes are one item.

An element is a pixel or voxel. How many elements an item stands for is its multiplicity, so that a volume of millions of voxels
is a few items. What elements have to do with their neighbours is not used.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from crowdppl.arguments import OutputFile, checked
from crowdppl.data.annotations import Annotations
from crowdppl.errors import DataError, FileError, OptionError, listed
from crowdppl.files import atomic

__all__ = ["Masks", "from_arrays", "from_patterns", "read"]

Array = npt.NDArray[Any]
# Endings of the names of NIfTI files.
NIFTI = (".nii", ".nii.gz")
# Patterns of votes that are counted in a table rather than sorted.
COUNTED = 2**22
# Largest difference of entries of the matrices that place two images.
PLACED = 1e-3


@dataclass(frozen=True, eq=False)
class Masks:
    """Segmentations of one image.

    Attributes:
        annotations: of patterns of votes: an item for each, named by its labels, with the number of elements as multiplicity.
        pattern: item of each element, of the shape of the image.
        source: the file that the first mask was read from, whose place in space written images take; ``None`` for arrays.
    """

    annotations: Annotations
    pattern: Array
    source: Path | None = None

    @property
    def raters(self) -> Array:
        """Names of the raters, ``(J,)``."""
        return self.annotations.workers

    @property
    def counts(self) -> Array:
        """Number of elements with each pattern, ``(N,)``."""
        assert self.annotations.multiplicity is not None
        return np.asarray(self.annotations.multiplicity.numpy().astype(np.int64))

    @property
    def votes(self) -> Array:
        """Class that each rater gave to each pattern, ``(N, J)``."""
        return np.asarray(self.annotations.label.numpy().reshape(self.annotations.N, -1))

    @checked
    def image(self, values: Any) -> Array:
        """Return an image with a value for each pattern, ``(N,)`` or ``(N, ...)``, such as the probability of a class.

        Raises:
            DataError: if there is not one value for each pattern.
        """
        values = np.asarray(values)
        if values.shape[:1] != (self.annotations.N,):
            raise DataError(
                f"values of shape {values.shape}; one for each of the {self.annotations.N:,} patterns is needed"
            )
        return np.asarray(values[self.pattern])

    @checked
    def save(self, image: Any, path: OutputFile) -> Path:
        """Write an image: ``.npy``, or ``.nii`` and ``.nii.gz`` at the place in space of the first mask.

        Raises:
            DataError: if the image has another shape.
            OptionError: for another ending, and for NIfTI without nibabel.
        """
        image, path = np.asarray(image), Path(path)
        if image.shape != self.pattern.shape:
            raise DataError(f"an image of shape {image.shape}; the masks have shape {self.pattern.shape}")
        if image.dtype.kind not in "biuf":
            raise DataError(f"an image of type {image.dtype}; it must hold numbers")
        if path.name.endswith(NIFTI):
            nibabel = _nibabel(path.name)
            whole = np.int16 if image.dtype.kind == "b" or np.abs(image).max() < 2**15 else np.int32
            stored = image if image.dtype.kind == "f" else image.astype(whole)
            affine = np.eye(4) if self.source is None else nibabel.load(self.source).affine
            written = nibabel.Nifti1Image(stored, affine).to_bytes()
            with atomic(path) as temporary:
                temporary.write_bytes(gzip.compress(written, mtime=0) if path.suffix == ".gz" else written)
        elif path.suffix == ".npy":
            with atomic(path) as temporary, temporary.open("wb") as file:
                np.save(file, image)
        else:
            raise OptionError(f"{path.name}: write to a file that ends in .npy, {' or '.join(NIFTI)}")
        return path


@checked
def from_arrays(masks: Any, raters: Any = None) -> Masks:
    """Return segmentations given as arrays of one shape, whose elements are the numbers of classes.

    Args:
        masks: by name of the rater, or a sequence of them.
        raters: their names, of a sequence. Defaults to ``rater_1``, ``rater_2``, ...

    Raises:
        DataError: if there are fewer than two, shapes differ, or an element is no whole number of at least 0.
    """
    if isinstance(masks, Mapping):
        masks, raters = list(masks.values()), list(masks)
    if not isinstance(masks, (Sequence, np.ndarray)) or isinstance(masks, (str, bytes)):
        raise DataError(f"masks is a {type(masks).__name__}; pass arrays by name of the rater, or a list of arrays")
    if raters is not None and (isinstance(raters, (str, bytes)) or not isinstance(raters, (Sequence, np.ndarray))):
        raise DataError(f"raters is a {type(raters).__name__}; pass a list of names")
    names = [f"rater_{n + 1}" for n in range(len(masks))] if raters is None else [str(name) for name in raters]
    if len(names) != len(masks) or len(set(names)) != len(names):
        raise DataError(f"{len(masks)} masks and the names {listed(names)}; each mask needs a name of its own")
    if len(masks) < 2:
        raise DataError(f"{len(masks)} masks; two or more raters are needed")
    arrays = [_classes(mask, name) for mask, name in zip(masks, names, strict=True)]
    for array, name in zip(arrays, names, strict=True):
        if array.shape != arrays[0].shape:
            raise DataError(
                f"the mask of {name} has shape {array.shape}, that of {names[0]} {arrays[0].shape}; resample them to one grid"
            )
    if arrays[0].size == 0:
        raise DataError("the masks have no elements")
    return _of_votes(arrays, names)


@checked
def from_patterns(patterns: Any, counts: Any, raters: Any = None) -> Masks:
    """Return segmentations of which only patterns of votes and their numbers are known.

    Args:
        patterns: class that each rater gave, ``(P, J)``.
        counts: number of elements with each, ``(P,)``.
        raters: names of the raters. Defaults to ``rater_1``, ``rater_2``, ...

    Raises:
        DataError: as :func:`from_arrays`, and for counts that are no whole numbers of at least 0.
    """
    table = _classes(patterns, "patterns")
    often = _classes(counts, "counts")
    if table.ndim != 2 or often.shape != table.shape[:1]:
        raise DataError(f"patterns of shape {table.shape} and counts of shape {often.shape}; use (P, J) and (P,)")
    table, often = table[often > 0], often[often > 0]
    masks = from_arrays(list(table.T), raters)
    total = np.bincount(masks.pattern, weights=often, minlength=masks.annotations.N)
    return replace(masks, annotations=replace(masks.annotations, multiplicity=torch.from_numpy(total)))


@checked
def read(paths: Any) -> Masks:
    """Read a mask of each rater from a file of its own, NIfTI or ``.npy``; the raters are named by the files.

    Args:
        paths: of the files.

    Raises:
        DataError: as :func:`from_arrays`, and if two images lie at different places in space.
        FileError: if a file cannot be read.
        OptionError: for files of another kind, and for NIfTI without nibabel.
    """
    if isinstance(paths, (str, Path)) or not isinstance(paths, Sequence):
        raise DataError("paths is not a list of files; pass one file for each rater")
    files = [Path(path) for path in paths]
    affines: list[tuple[str, Array]] = []
    masks: dict[str, Array] = {}
    for file in files:
        name = _stem(file)
        if name in masks:
            raise DataError(f"two files are called {name}, which names the rater; rename one")
        if file.name.endswith(NIFTI):
            masks[name], affine = _nifti(file)
            affines.append((name, affine))
        elif file.suffix == ".npy":
            try:
                masks[name] = np.load(file, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise FileError(f"{file}: cannot be read as an array; {error}") from None
        else:
            raise OptionError(f"{file.name}: masks are read from .npy, {' and '.join(NIFTI)}")
    for name, affine in affines[1:]:
        if affine.shape != affines[0][1].shape or not np.allclose(affine, affines[0][1], atol=PLACED):
            raise DataError(
                f"the mask of {name} lies at another place in space than that of {affines[0][0]}; resample them to one grid"
            )
    return replace(from_arrays(masks), source=files[0] if affines else None)


def _stem(file: Path) -> str:
    """Return the name of a file without the endings of an image."""
    return next(
        (file.name[: -len(end)] for end in sorted(NIFTI, key=len, reverse=True) if file.name.endswith(end)), file.stem
    )


def _nifti(file: Path) -> tuple[Array, Array]:
    """Return the elements of an image, and the matrix that places it in space.

    Raises:
        FileError: if it cannot be read.
    """
    nibabel = _nibabel(file.name)
    try:
        image = nibabel.load(file)
        return np.asarray(image.dataobj), np.asarray(image.affine)
    except (OSError, ValueError, EOFError, zlib.error, nibabel.filebasedimages.ImageFileError) as error:
        raise FileError(f"{file}: cannot be read as an image; {error}") from None


def _nibabel(name: str) -> Any:
    try:
        import nibabel  # here: an extra
    except ImportError:
        raise OptionError(f"{name}: NIfTI needs nibabel; pip install 'crowdppl[images]'") from None
    return nibabel


def _classes(mask: Any, name: str) -> Array:
    """Return whole numbers of at least 0, as integers.

    Raises:
        DataError: for others.
    """
    try:
        array = np.asarray(mask)
    except ValueError:
        raise DataError(f"{name}: rows of different lengths; a mask is an array") from None
    if isinstance(mask, np.ma.MaskedArray) and np.ma.is_masked(mask):
        raise DataError(f"{name}: elements are masked; fill them with a class, or crop all masks alike")
    if array.dtype.kind not in "biuf":
        raise DataError(f"{name}: values of type {array.dtype}; a mask holds the numbers of classes, 0 for none")
    if array.dtype.kind == "f" and not np.all(array == np.floor(array)):  # not a number is no whole number either
        raise DataError(f"{name}: values that are not whole numbers; cut probabilities at .5 first")
    if array.size and (array.min() < 0 or array.max() >= 2**31):
        raise DataError(
            f"{name}: values from {array.min():g} to {array.max():g}; a mask holds the numbers of classes, 0 for none"
        )
    return array.astype(np.int64)


def _occurring(array: Array) -> Array:
    """Return the classes that occur."""
    return np.flatnonzero(np.bincount(array.reshape(-1))) if array.max() < COUNTED else np.unique(array)


def _of_votes(arrays: list[Array], names: list[str]) -> Masks:
    """Return masks whose elements are whole numbers."""
    labels = np.unique(np.concatenate([_occurring(array) for array in arrays]))
    K, J = len(labels), len(names)
    # A pattern is a number with a digit for each rater; after each rater, patterns that do not occur are left out.
    code, digits = np.zeros(arrays[0].size, dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
    for array in arrays:
        digit = np.searchsorted(labels, array.reshape(-1))
        joined = code * K + digit
        size = len(digits) * K
        if size <= COUNTED:
            kept = np.flatnonzero(np.bincount(joined, minlength=size))
            number = np.zeros(size, dtype=np.int64)
            number[kept] = np.arange(len(kept))
            code = number[joined]
        else:
            kept, code = np.unique(joined, return_inverse=True)
        digits = np.column_stack([digits[kept // K], kept % K])  # (patterns, raters so far)
    count = np.bincount(code, minlength=len(digits))
    items = [" ".join(str(labels[k]) for k in row) for row in digits.tolist()]
    given = digits.reshape(-1)
    data = Annotations.from_arrays(
        np.repeat(np.array(items, dtype=object), J),
        np.tile(np.array(names, dtype=object), len(items)),
        labels[given],
        labels=labels.tolist() if K > 1 else None,
        kind="nominal",
    )
    note = f"{code.size:,} elements of the image with {len(items):,} patterns of votes, which are the items"
    data = replace(data, multiplicity=torch.from_numpy(count.astype(np.float64)), notes=(*data.notes, note))
    return Masks(data, code.reshape(arrays[0].shape))
