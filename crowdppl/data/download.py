"""Downloads of public data sets from their authors' repositories, by pooch, with verified content and a cache.

A set is pinned twice: the address contains a commit, and the content must have the SHA-256 given here. The digest is computed
from the sorted lines ``item``, ``worker``, ``label``, so it does not depend on order and file layout.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from crowdppl.arguments import checked
from crowdppl.errors import FileError, OptionError, suggestion
from crowdppl.files import atomic

ADDRESS = "https://github.com/{repository}/raw/{commit}/{path}"
Tables = tuple[pd.DataFrame, pd.DataFrame]


@dataclass(frozen=True)
class Source:
    """The published source of a set.

    Attributes:
        repository: owner and name on GitHub.
        commit: commit with the files.
        annotations: path of the annotations.
        truth: path of the true classes.
        layout: converts both files to tables ``item, worker, label`` and ``item, label``, all text.
        sha256: SHA-256 of the content of both tables.
        citation: citation of the data.
        licence: as the source states it.
    """

    repository: str
    commit: str
    annotations: str
    truth: str
    layout: Callable[[Path, Path], Tables]
    sha256: str
    citation: str
    licence: str = "not stated"

    def of(self, name: str, sha256: str, *, citation: str | None = None) -> Source:
        """Return the source of one set of a repository, whose paths have the name of the set in the place of ``{}``."""
        return replace(
            self,
            annotations=self.annotations.format(name),
            truth=self.truth.format(name),
            sha256=sha256,
            citation=self.citation if citation is None else citation,
        )


def _columns(path: Path, names: list[str], separator: str = ",", header: int | None = 0) -> pd.DataFrame:
    return pd.read_csv(
        path, sep=separator, header=header, names=names, dtype=str, keep_default_na=False, encoding="utf-8"
    )


def by_item(annotations: Path, truth: Path) -> Tables:
    """Read ``item, worker, label`` and ``item, label``, with headers."""
    return _columns(annotations, ["item", "worker", "label"]), _columns(truth, ["item", "label"])


def by_worker(annotations: Path, truth: Path) -> Tables:
    """Read ``worker, item, label`` and ``item, label``, separated by tabs, without headers."""
    table = _columns(annotations, ["worker", "item", "label"], "\t", None)
    return table[["item", "worker", "label"]], _columns(truth, ["item", "label"], "\t", None)


def matrix(annotations: Path, truth: Path) -> Tables:
    """Read one row per item and one column per worker, both numbered from 0, and one true class per line."""
    wide = pd.read_csv(annotations, header=None, dtype=str, keep_default_na=False)
    table = wide.rename_axis("item").reset_index().melt("item", var_name="worker", value_name="label")
    table = table[table["label"] != ""].sort_values(["item", "worker"]).astype(str)
    key = [line.strip() for line in truth.read_text(encoding="utf-8").splitlines() if line.strip()]
    return table, pd.DataFrame({"item": [str(n) for n in range(len(key))], "label": key})


_PVLDB = "Zheng, Li, Li, Shan, Cheng (2017). Truth inference in crowdsourcing: is the problem solved? PVLDB 10(5)"
_ZHENG = Source(
    repository="zhydhkcws/crowd_truth_infer",
    commit="8d216471071f",
    annotations="datasets/{}/answer.csv",
    truth="datasets/{}/truth.csv",
    layout=by_item,
    sha256="",
    citation=_PVLDB,
)
_LI = Source(
    repository="yuan-li/truth-inference-at-scale",
    commit="621789b2d57324d3559dc973b2613d2296d73f55",
    annotations="data/{}/label.csv",
    truth="data/{}/truth.csv",
    layout=by_item,
    sha256="",
    citation=_PVLDB,
)
_SNOW = Source(
    repository="dirkhovy/MACE",
    commit="10f231ee2d43",
    annotations="data/test/{}.csv",
    truth="data/test/{}.key",
    layout=matrix,
    sha256="",
    citation="Snow, O'Connor, Jurafsky, Ng (2008). Cheap and fast - but is it good? EMNLP",
)
_IPEIROTIS = Source(
    repository="ipeirotis/Get-Another-Label",
    commit="9fe6c56a7a15",
    annotations="data/{}/labels.txt",
    truth="data/{}/gold.txt",
    layout=by_worker,
    sha256="",
    citation="Ipeirotis, Provost, Wang (2010). Quality management on Amazon Mechanical Turk. HCOMP",
    licence="Apache-2.0 (repository)",
)

SOURCES: dict[str, Source] = {
    "dog": _ZHENG.of("s4_Dog data", "9b8d88bea80aafd0e8480c3cd58681ae7f7444b308ddf783f40e8265dd8a1fd2"),
    "face": _ZHENG.of(
        "s4_Face Sentiment Identification", "fc767b27d2e0671f5621cb3ef2c249129e1471a994f4324d3061dc3159e532af"
    ),
    "product": _ZHENG.of("d_jn-product", "95f7bda7ec8f5aae6a4bad82b087b2a47dbcd2013c6d844247a344a949ca7fdf"),
    "pos-sentiment": _LI.of(
        "crowd_truth_inference/d_sentiment", "c4c798d6b53e5bbbc579bcdfa1ccaea18f0e47cb1b83fa1e9196d8b1bfc305ec"
    ),
    "fact-eval": _LI.of(
        "crowdscale2013/fact_eval",
        "53baa1c888946cbb8ecf2c5f05b50dd64e4557805381e5f6b41f9e074aa6dbe8",
        citation="CrowdScale 2013 shared task, Google fact evaluation",
    ),
    "rte": _SNOW.of("rte", "da65bb0ee664d56e2319b9cd56ac1767a7f73765e44c622a7851f96ab53f0346"),
    "wsd": _SNOW.of("wsd", "11371ca5f1686ecd3f672061098d698aa6a4d1483a3f34a22d6c1d3276abb6c8"),
    "adult-content": _IPEIROTIS.of(
        "AdultContent2",
        "bef80855e8d89b1ead752e461fc2904a58a0dc7090e5db306039173266049747",
    ),
    "hitspam-crowdflower": _IPEIROTIS.of(
        "HITspam-UsingCrowdflower", "aa544a258d3f3ad5fa895c0db7bc48193af20bf84cdea2039e30c1337c7c8038"
    ),
}


def content_digest(annotations: pd.DataFrame, truth: pd.DataFrame) -> str:
    """Return the SHA-256 of the annotations and the true labels of annotated items, as sorted lines, in hexadecimal."""
    truth = truth[truth["item"].isin(annotations["item"])]
    lines = []
    for table, names in ((annotations, ["item", "worker", "label"]), (truth, ["item", "label"])):
        lines += sorted("\t".join(row) for row in table[names].astype(str).itertuples(index=False))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def cache() -> Path:
    """Return the cache folder of fetched sets."""
    import pooch  # here: it imports an HTTP client, which is slow

    return Path(pooch.os_cache("crowdppl"))


@checked
def fetch(name: str, *, again: bool = False) -> Path:
    """Fetch a public set from its authors' repository, unless it is in the cache.

    Args:
        name: name of the set, one of ``SOURCES``.
        again: fetch it even if it is in the cache.

    Returns:
        Its folder in the cache, where ``datasets.public`` finds it: ``annotations.csv.gz``, ``truth.csv`` and ``meta.json``.

    Raises:
        OptionError: for a name that is not in ``SOURCES``.
        FileError: if the repository cannot be reached, or the content differs from the expected one.
    """
    if name not in SOURCES:
        raise OptionError(f"no set {name!r} to fetch{suggestion(name, SOURCES)}; use one of {', '.join(SOURCES)}")
    import pooch

    source, here = SOURCES[name], cache() / name
    if (here / "meta.json").is_file() and not again:
        return here
    raw = here / "as-published"
    shutil.rmtree(raw, ignore_errors=True)
    try:
        paths = []
        for path in (source.annotations, source.truth):
            url = ADDRESS.format(repository=source.repository, commit=source.commit, path=quote(path))
            paths.append(Path(pooch.retrieve(url, known_hash=None, fname=Path(path).name, path=raw, progressbar=False)))
        tables = source.layout(*paths)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise FileError(f"the set {name!r} cannot be fetched from {source.repository}: {reason}") from None
    finally:
        shutil.rmtree(raw, ignore_errors=True)
    if content_digest(*tables) != source.sha256:
        raise FileError(
            f"the set {name!r} at {source.repository} differs from the published one (SHA-256 of its content)"
        )
    return _store(here, source, *tables)


def _store(here: Path, source: Source, annotations: pd.DataFrame, truth: pd.DataFrame) -> Path:
    """Write a set in the format that ``datasets.public`` reads; its description is written last."""
    files = {
        "annotations.csv.gz": gzip.compress(annotations.to_csv(index=False).encode(), mtime=0),
        "truth.csv": truth.to_csv(index=False).encode(),
    }
    meta = {
        "title": here.name,
        "n_items": annotations["item"].nunique(),
        "n_workers": annotations["worker"].nunique(),
        "n_annotations": len(annotations),
        "n_classes": annotations["label"].nunique(),
        "n_truth": len(truth),
        "citation": source.citation,
        "licence": source.licence,
        "source": f"{source.repository}@{source.commit}",
        "sha256": {name: hashlib.sha256(value).hexdigest() for name, value in files.items()},
    }
    for name, value in (files | {"meta.json": json.dumps(meta, indent=1).encode()}).items():
        with atomic(here / name, again=True) as temporary:
            temporary.write_bytes(value)
    return here
