"""The command ``masks``: segmentations of one image by several raters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from crowdppl.cli.application import command, console, err, set_state
from crowdppl.cli.options import Overwrite, Raw
from crowdppl.errors import OptionError, silent

if TYPE_CHECKING:
    import pandas as pd


@command
def masks_command(
    files: Annotated[
        list[Path], typer.Argument(help="A mask of each rater: .nii, .nii.gz or .npy, named by the rater.")
    ],
    learn_prevalence: Annotated[
        bool,
        typer.Option(
            "--learn-prevalence",
            help="Learn the share of each class. (default: STAPLE's, the share of elements that raters gave it)",
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the images and the table of raters.")] = Path("consensus"),
    overwrite: Overwrite = False,
    raw: Raw = False,
) -> None:
    """Find the consensus of several segmentations of one image, and each rater's sensitivity and specificity (STAPLE)."""
    from crowdppl import export
    from crowdppl.cli.display.shared import show_notes
    from crowdppl.data import masks as masked
    from crowdppl.export import results
    from crowdppl.export.folders import replaced
    from crowdppl.inference.fit import fit
    from crowdppl.models import DawidSkene
    from crowdppl.posterior.masks import rater_table, staple

    if len(files) < 2:
        raise OptionError(f"{len(files)} file; name the masks of two or more raters")
    with silent():
        masks = masked.read(files)
        data = masks.annotations
        ending = ".npy" if masks.source is None else ".nii.gz"
        classes = [str(label) for label in data.labels.tolist()]
        if len(classes) < 2:
            raise OptionError(f"every element of every mask is {classes[0]}; there is nothing to find")
        images = ["consensus"] + [f"probability_{label}" for label in classes[1:]]
        names = [*(image + ending for image in images), "raters.csv"]
        results.free(out, overwrite=overwrite, files=names)
        model = DawidSkene.maximum_likelihood() if learn_prevalence else staple(data)
        posterior = fit(data, model, method="em", independent=True, tol=1e-10, max_iter=100_000)
    size = " x ".join(f"{side:,}" for side in masks.pattern.shape)
    err.print(f"[bold]{len(files)} masks[/bold]: {size} elements, {data.N:,} patterns of votes")
    probability = posterior.probability()
    table = rater_table(posterior, masks)
    with replaced(out, names, lambda: set_state(f"the consensus is in {out}")) as staging:
        masks.save(masks.image(data.labels[probability.argmax(-1)]), staging / names[0])
        for k, name in enumerate(names[1:-1], 1):
            masks.save(masks.image(probability[:, k].astype("float32")), staging / name)
        export.write(table, staging / "raters.csv", raw=raw)
    _show(table, by_class=len(classes) > 2)
    show_notes(list(data.notes))
    console.print(f"Wrote {', '.join(names)} in {escape(str(out))}.")


def _show(raters: pd.DataFrame, *, by_class: bool) -> None:
    """Print the table of raters."""
    from crowdppl.cli.display.shared import grid

    columns = ["worker", *(["class"] if by_class else []), "elements", "sensitivity", "specificity", "dice"]
    shown = grid("Raters", columns, left=("worker",))
    for row in raters.to_dict("records"):
        cells = [escape(str(row["worker"])), *([str(row["class"])] if by_class else []), f"{row['elements']:,}"]
        shown.add_row(*cells, *(f"{row[name]:.4f}" for name in ("sensitivity", "specificity", "dice")))
    console.print(shown)
    console.print(
        "dice: overlap with the consensus. No intervals: neighbouring elements are not independent, and any would be too narrow.",
        style="dim",
    )
