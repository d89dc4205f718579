"""The files that ``datasets`` reads of a folder (``data_files.py: get_data_patterns``, 4.8.4)."""

import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from launchers import logs
from launchers.exits import Exit, LaunchError

_SPLITS = (
    ("train", "train|training"),
    ("validation", "validation|valid|dev|val"),
    ("test", "test|testing|eval|evaluation"),
)
_SHARD = re.compile(r"data/(\w+(?:\.\w+)*)-\d{5}-of-\d{5}[^/]*\.[^/]*")
_METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_MEDIA = "png jpg jpeg gif bmp webp tif tiff wav mp3 flac ogg m4a mp4 mkv avi mov webm pdf nii"
_MEDIA += " tar xml eval"
_OTHERS = "hdf5 h5 lance zip"
"""Suffixes of which ``datasets`` makes columns without pairs, and of which we don't know it
(``packaged_modules/__init__.py``)."""
_PLAIN = re.compile(r"(?!.*(?:\*\*[^/]|[^/]\*\*))(?:[\w*?-][\w.*?-]*/)*[\w*?-]+\.[\w.*?-]+")
"""Patterns of files in the folder of which ``_fits`` is sure."""
_NOT_DATA = ("README.md", "config.json", "dataset_info.json", "dataset_infos.json")


@dataclass(frozen=True)
class Place:
    """A dataset, or one of its files."""

    key: str
    """Key of the dataset in the values, e.g. ``recipe.dataset[0]``."""
    path: Path

    def refusal(self, id: str, wrong: str, remedy: str) -> LaunchError:
        """Return the error of rows that cannot be trained on."""
        return LaunchError(Exit.DATA, f"{self.key}: {self.path} {wrong}", remedy, id=id)


def train_files(at: Place, readers: Mapping[str, str]) -> list[tuple[Path, str]] | str:
    """Return the files of a folder's split ``train`` and their readers; or why they are not known.

    Args:
        at: the folder.
        readers: the readers of single files by suffix; in a folder ``datasets`` knows two more.

    Raises:
        LaunchError: DATA when ``datasets`` would find no such split.
    """
    shown = _shown(at.path)
    if any(n in ("state.json", "dataset_dict.json") for n in shown):
        raise at.refusal(
            "dataset-saved",
            "was written by save_to_disk, which load_dataset does not read",
            "write it as parquet: dataset.to_parquet('pairs.parquet')",
        )
    if f"{at.path.name}.py" in shown:
        wrong = f"holds {at.path.name}.py, a script that datasets no longer runs"
        raise at.refusal("dataset-script", wrong, "name the file of rows, or remove it")
    chosen = _configured(at, shown)
    if isinstance(chosen, str):
        return chosen
    splits = _splits(_data(shown)) if chosen is None else {"train": chosen}
    if not splits:
        raise at.refusal("dataset-no-files", "has no files", "use a folder with data")
    if "train" not in splits:
        raise _no_train(at, splits)
    known = {**readers, "tsv": "tsv", "ndjson": "json", "geoparquet": "parquet", "gpq": "parquet"}
    kinds = {split: _kind(files, known) for split, files in splits.items()}
    _refuse_kinds(at, kinds, splits["train"][0], readers)
    kind = kinds["train"]
    inner = {name: [name] for name in splits["train"]}
    if kind == "zip":
        inner = {name: members(at.path / name) for name in inner if name.endswith(".zip")}
        kind = _kind([*chain.from_iterable(inner.values())], known)
        if known.get(kind) in (None, "parquet", "arrow") or any(len(n) > 1 for n in inner.values()):
            return "its .zip files hold several files each, or parquet, and are not read"
    files = [(at.path / name, known.get(_kind(names, known), "")) for name, names in inner.items()]
    found = [each for each in files if each[1] and each[1] == known.get(kind)]
    return found or f"its .{kind} files are not read"


def _refuse_kinds(at: Place, kinds: Mapping[str, str], first: str, readers: Iterable[str]) -> None:
    """Refuse splits of which ``datasets`` reads none, or not all; ``first``: a file of train."""
    kind = kinds["train"]
    if not kind:
        wrong = f"has no files of a suffix that datasets reads: {first}"
        raise at.refusal("dataset-suffix", wrong, f"use .{', .'.join(readers)}")
    if kind in _MEDIA.split():
        wrong = f"has mostly .{kind} files, of which datasets makes no rows of pairs"
        raise at.refusal("dataset-media", wrong, "name the file of rows in its place")
    if len({*kinds.values()}) > 1:
        wrong = "has splits of other formats: " + ", ".join(f"{s} {k}" for s, k in kinds.items())
        remedy = f"name one file in its place: .../{first}"
        raise at.refusal("dataset-formats-differ", wrong, remedy)


def members(path: Path) -> list[str]:
    """Return the files in a zip file that ``datasets`` reads; none of a damaged or locked one."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [
                each for each in archive.infolist() if not (each.is_dir() or each.flag_bits & 1)
            ]
    except zipfile.BadZipFile:
        return []
    return [e.filename for e in found if not re.search(r"(^|/)(\.|__)", e.filename)]


def _shown(folder: Path) -> list[str]:
    """Return the files of a folder that are not hidden, as ``datasets`` sees them."""

    def closed(error: OSError) -> None:
        if not isinstance(error, PermissionError) or Path(error.filename) == folder:
            raise error
        # ``datasets`` leaves it out, too
        logs.warning("a folder of the dataset is closed to this user", folder=error.filename)

    below = (Path(root, n) for root, _, names in os.walk(folder, onerror=closed) for n in names)
    names = sorted(p.relative_to(folder).as_posix() for p in below if p.is_file())
    return [name for name in names if not re.search(r"(^|/)(\.|__[^/]*/)", name)]


def _data(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.rpartition("/")[2] not in _NOT_DATA]


def _no_train(at: Place, splits: Mapping[str, Sequence[str]]) -> LaunchError:
    named = ", ".join(f"{name} ({files[0]})" for name, files in splits.items())
    nearest = max(splits, key=lambda name: "train" in name)
    return at.refusal(
        "dataset-no-train",
        f"has no split train; its splits are {named}",
        f"name one file in place of the folder: .../{splits[nearest][0]}",
    )


def _kind(names: Iterable[str], known: Mapping[str, str]) -> str:
    """Return the suffix that decides about the reader of files; empty if none is known.

    As ``datasets/load.py: infer_module_for_data_files_list`` (4.8.4).

    >>> _kind(["LICENSE.txt", "a.jsonl"], {"txt": "text", "jsonl": "json"})
    'jsonl'
    """
    bases = [name.rpartition("/")[2] for name in names]
    counts = Counter((s.lower(), b in _METADATA) for b in bases for s in b.split(".")[1:])
    favorites = ("parquet", "jsonl", "json", "csv")

    def key(each: tuple[str, bool]) -> tuple[Any, ...]:
        return (not each[1], counts[each], *(each[0] == name for name in favorites), each[0])

    ordered = [suffix for suffix, _ in sorted(counts, key=key, reverse=True)]
    others = f"{_MEDIA} {_OTHERS}".split()
    return next((s for s in ordered if s in known or s in others), "")


def _splits(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each split, as ``datasets`` finds them by folders and names.

    >>> _splits(["data/test_prefs-00000-of-00001.parquet"])
    {'test_prefs': ['data/test_prefs-00000-of-00001.parquet']}
    >>> _splits(["a.jsonl", "b.jsonl"]) == _splits(["a.jsonl", "b.jsonl", "c/dev.jsonl"])
    False
    """
    found: dict[str, list[str]] = {}
    for name in names:
        if match := _SHARD.fullmatch(name):
            found.setdefault(match[1], []).append(name)
    if found:
        return found
    for part in (slice(0, -1), slice(-1, None)):  # folders, then file names
        for split, words in _SPLITS:
            ends = "[-._ 0-9]" if part.start else "(?:[-._ 0-9]|$)"
            known = re.compile(rf"(?:.*[-._ 0-9])?(?:{words}){ends}")
            fitting = [n for n in names if any(known.match(p) for p in n.split("/")[part])]
            if fitting:
                found[split] = fitting
        if found:
            return found
    return {"train": [*names]} if names else {}


def _configured(at: Place, names: Sequence[str]) -> list[str] | str | None:
    """Return the files that the README's ``configs`` give to the split ``train``; None: no configs.

    Raises:
        LaunchError: DATA when there are several subsets and none is called default, the one that
            ms-swift asks for.
    """
    configs = _card(at.path).get("configs")
    if not isinstance(configs, list) or not configs:
        return None
    maps = [each for each in configs if isinstance(each, dict)]
    named = {str(each.get("config_name", "default")): each for each in maps}
    if "default" not in named:
        raise at.refusal(
            "dataset-subset",
            f"has the subsets {', '.join(named)} and none called default",
            "name the files of one subset in place of the folder: recipe.dataset: "
            "[file:///.../file.parquet]; or hf://org/name@revision/path of one file",
        )
    given = named["default"].get("data_files")
    of_splits = given if isinstance(given, list) else [given]
    named_splits = {
        str(each.get("split")): [str(each.get("path"))] if isinstance(each, dict) else [""]
        for each in of_splits
        if isinstance(each, dict) and each.get("split")
    }
    if named_splits and "train" not in named_splits and len(named_splits) == len(of_splits):
        raise _no_train(at, named_splits)
    paths = [
        each.get("path") if isinstance(each, dict) else each
        for each in of_splits
        if not isinstance(each, dict) or each.get("split") == "train"
    ]
    patterns = [p for each in paths for p in (each if isinstance(each, list) else [each])]
    texts = [p for p in patterns if isinstance(p, str)]
    found = [n for n in names if any(_fits(p, n) for p in texts)]
    is_sure = texts == patterns != [] and all(map(_PLAIN.fullmatch, texts))
    # ``glob`` finds hidden files and those behind links, too
    if not found and is_sure and not any(any(at.path.glob(p)) for p in texts):
        wrong = f"has no file {patterns[0]}, which configs of its README.md name"
        raise at.refusal("dataset-readme", wrong, "correct configs of README.md, or remove it")
    return found or "its README chooses the files"


def _card(folder: Path) -> dict[str, Any]:
    """Return the metadata of a folder's README; empty without."""
    file = folder / "README.md"
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    parts = text.split("---\n", 2)
    try:
        document = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0] else None
    except yaml.YAMLError:
        document = None
    return document if isinstance(document, dict) else {}


def refuse_info(at: Place, columns: Collection[str], rows: int | None) -> None:
    """Refuse what differs from the README's ``dataset_info``.

    ``datasets`` ends with CastError, ExpectedMoreSplitsError, NonMatchingSplitsSizesError.

    Args:
        at: the folder.
        columns: of the rows of its split ``train``.
        rows: their number; None if it is not known.

    Raises:
        LaunchError: DATA, naming the columns or the splits.
    """
    card = _card(at.path)
    info = _info(card)
    features, splits = (_named(info.get(part)) for part in ("features", "splits"))
    is_counted = splits and not card.get("configs")
    found = {*_splits(_data(_shown(at.path)))} if is_counted else {*splits}
    said = splits.get("train", {}).get("num_examples") or 0
    if features and (more := {*columns} - {*features}):
        wrong = f"has the columns {', '.join(sorted(more))}, which its dataset_info lacks"
    elif found != {*splits}:
        wrong = (
            f"has the splits {', '.join(sorted(found))}, and its dataset_info {', '.join(splits)}"
        )
    elif splits and rows not in (None, said):
        wrong = f"has {rows} rows, and {said} by num_examples of its dataset_info"
    else:
        return
    raise at.refusal("dataset-readme", wrong, "correct dataset_info of README.md, or remove it")


def _info(card: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a README's metadata says of the subset ``default``; empty without."""
    given = card.get("dataset_info") or []
    listed = [e for e in (given if isinstance(given, list) else [given]) if isinstance(e, dict)]
    return next((each for each in listed if each.get("config_name", "default") == "default"), {})


def _named(listed: Any) -> dict[str, Any]:
    """Return a map, or a list of maps with names as one."""
    if isinstance(listed, dict):
        return listed
    return {str(each.get("name")): each for each in listed or [] if isinstance(each, dict)}


def _fits(pattern: str, name: str) -> bool:
    parts = re.split(r"(\*\*/?|\*|\?)", pattern)
    known = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return re.fullmatch("".join(known.get(p, re.escape(p)) for p in parts), name) is not None


def is_spread(path: Path, line: bytes) -> bool:
    """Return whether a line that is no JSON holds several maps, or a part of one."""
    with path.open(encoding="utf-8-sig", errors="replace") as handle:
        begin = handle.read(1024**2).lstrip()
    for text, is_first in ((line.decode("utf-8", "replace").strip(), False), (begin, True)):
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            continue
        is_many = "\n" in text[:end] if is_first else text[end:].lstrip()[:1] == "{"
        if isinstance(value, dict) and is_many:
            return True
    return False
