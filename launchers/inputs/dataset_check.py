"""The check of the datasets' rows before the model is downloaded.

ms-swift drops a row that it cannot use and trains on the rest
(``swift/dataset/preprocessor/core.py``: ``batched_preprocess``), so a dataset without a single pair
fails only after the download, the conversion and the start of all GPUs. Rows that a user's plugin
makes are read, but not judged as pairs.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launchers import logs
from launchers.config.flag_value import is_zero
from launchers.config.recipe import PAIRED, Recipe
from launchers.exits import Exit, LaunchError
from launchers.flags.code_files import ROW_MAKERS
from launchers.flags.features import reads_forms
from launchers.inputs import row_advice, row_files, row_forms
from launchers.inputs.form_table import REGISTERED, SUBSETS
from launchers.inputs.row_files import Rows
from launchers.inputs.row_folder import Place
from launchers.inputs.row_forms import Form
from launchers.inputs.row_pairs import Pair, Reader
from launchers.inputs.rows import shapes
from launchers.inputs.rows.columns import Dropped
from launchers.rules.table import SWIFT
from launchers.upstream import source
from launchers.upstream.versions import parse_version

SURE = 3.0
"""Rows of a sample must exceed the limit of dropped rows by this factor to refuse the dataset."""
WARNED = (
    "dataset-tool-turn-differs", "dataset-no-prompt", "dataset-reasoning", "dataset-image-unseen",
    "dataset-markers", "dataset-prompt-twice", "dataset-space-differs", "dataset-turns-joined",
    "dataset-system-empty",
)  # fmt: skip
"""Faults that are a warning in all rows too. Others of rows that ms-swift keeps (``Pair.faults``)
are a warning in a part of the rows, and refuse a dataset in which all rows are wrong."""


@dataclass(frozen=True)
class Dataset(Place):
    """One dataset of the recipe, on the workspace."""

    sample: int | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One row that is dropped, or that should not be trained on."""

    id: str
    why: str
    path: Path
    row: int | None


@dataclass(kw_only=True)
class Judged:
    """What was found in one dataset."""

    dataset: Dataset
    files: Sequence[Rows]
    form: Form | None = None
    pairs: list[tuple[Path, int | None, Pair]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    dropped: int = 0
    wrong: int = 0
    """Rows that are dropped, or that have a fault for which all rows would be refused."""
    unread: str = ""
    """Why its rows were not judged; empty if they were."""

    @property
    def rows(self) -> int:
        """Return the number of rows that were read."""
        return sum(len(each.rows) for each in self.files)

    @property
    def total(self) -> int | None:
        """Return the rows of the dataset; None where they were not counted."""
        totals = [each.total for each in self.files]
        return None if None in totals else sum(t for t in totals if t is not None)

    @property
    def is_whole(self) -> bool:
        """Return whether every row was read."""
        return all(each.is_whole for each in self.files)


def check(recipe: Recipe, datasets: Sequence[Dataset], *, replicas: int | None) -> list[Judged]:
    """Refuse datasets that make no training step, or less than the recipe asks for.

    Args:
        recipe: the run's recipe.
        datasets: all of them.
        replicas: data-parallel size; None when it is not known.

    Returns:
        What was found in each, for those that show it.

    Raises:
        LaunchError: DATA, naming the key, the file and the rows.
    """
    judged = judge(recipe, datasets, images=True)
    for each in judged:
        refuse(recipe, each)
    counts = [_count(each) for each in judged]
    for each, count in zip(judged, counts, strict=True):
        _refuse_unsplit(recipe, each.dataset, count)
    if replicas is not None and recipe.backend == "megatron" and None not in counts:
        _refuse_too_few(recipe, sum(c for c in counts if c is not None), replicas)
    return judged


def judge(
    recipe: Recipe, datasets: Sequence[Dataset], limit: int | None = None, *, images: bool = False
) -> list[Judged]:
    """Read the datasets and judge each row as ms-swift's reader would.

    Args:
        recipe: the recipe.
        datasets: all of them.
        limit: as of ``row_files.read``.
        images: whether images are looked at: only pods have the paths of the rows.

    Raises:
        LaunchError: DATA for a file that cannot be read, and for a map of columns that fits none;
            CONFIG for one that is not a map.
    """
    columns = column_map(recipe)
    found = [
        Judged(dataset=each, files=row_files.read(each, limit))
        for each in datasets
        if not _refuse_subsets(each)
    ]
    given = [name for each in found for file in each.files for name in file.columns]
    for each in found:
        _choose_form(recipe, each, Reader(columns=given, mapped=columns))
    release = parse_version(recipe.swift_version or source.version("ms-swift") or SWIFT)
    made = [_columns_of(each) for each in found]
    everywhere = {name for names in made for name in names if name.startswith("rejected_")}
    tables = []
    for each, names in zip(found, made, strict=True):
        if each.unread:
            continue
        reader = Reader(
            columns=[*names, *sorted(everywhere - {*names})],
            mapped=columns,
            release=release,
            is_auto=not recipe.is_on("disable_auto_column_mapping"),
            images=images,
            is_last_round=_is_last_round(recipe),
            is_jinja=recipe.arg("template_backend") == "jinja",
        )
        _judge_rows(each, reader)
        if each.is_whole:
            rows = [row for file in each.files for _, row in file.rows]
            tables.append((each.dataset.key, each.dataset.path, rows, reader.typed()))
    shapes.refuse_types(tables)
    return found


def _choose_form(recipe: Recipe, judged: Judged, everywhere: Reader) -> None:
    """Note why a dataset's rows are not judged, or which built-in reader they have.

    ``everywhere``: the recipe's map of columns, with the columns of all datasets.
    """
    path, judged.unread = judged.dataset.path, _unjudged(recipe, judged)
    if judged.unread:
        logs.warning("rows not judged", file=path, why=judged.unread)
    elif everywhere.mapped:
        _refuse_columns(judged, everywhere)
    elif reads_forms(recipe):
        judged.form = row_forms.find(first_rows(judged.files))
        if judged.form:
            logs.info("rows have a built-in reader", file=path, form=judged.form.name)


def column_map(recipe: Recipe) -> dict[str, str]:
    """Return ``recipe.args.columns``; empty without one, and where it is a file.

    Raises:
        LaunchError: CONFIG where it is neither a map nor JSON, such as ``old:new``.
    """
    given = recipe.args.get("columns", "")
    if isinstance(given, str) and given and not given.endswith(".json"):
        try:
            given = json.loads(given)
        except ValueError:
            given = [given]
    if isinstance(given, Mapping):
        return {str(old): str(new) for old, new in given.items()}
    if isinstance(given, list):
        raise LaunchError(
            Exit.CONFIG,
            f"recipe.args.columns: {' '.join(map(str, given))!r} is not a map",
            "use a map, e.g. {chosen: messages, rejected: rejected_messages}, or JSON",
            id="columns-form",
        )
    return {}


def first_rows(files: Sequence[Rows]) -> list[Mapping[str, Any]]:
    """Return the rows by which a form is chosen: the first of the first file."""
    return [row for _, row in files[0].rows[: row_forms.LOOKED_AT]] if files else []


def steps(rows: int, *, micro: int, replicas: int, epochs: int, batch: int) -> int:
    """Return the number of iterations that Megatron-SWIFT makes of a dataset.

    Source: ``swift/megatron/arguments/megatron_args.py``: ``init_iters``.

    >>> steps(100, micro=1, replicas=8, epochs=1, batch=128)
    0
    >>> steps(100, micro=1, replicas=8, epochs=2, batch=64)
    3
    """
    step = micro * replicas
    return rows // step * step * epochs // batch


def _unjudged(recipe: Recipe, judged: Judged) -> str:
    """Return why rows are not judged as pairs; empty if they are."""
    unread = [f"{each.path.name}: {each.unread}" for each in judged.files if each.unread]
    by_user = [name for name in ROW_MAKERS if name != "columns" and name in recipe.args]
    columns = recipe.args.get("columns", "")
    if unread:
        return "; ".join(unread)
    if recipe.preference not in PAIRED:
        return "they need not be pairs"
    if by_user:
        return f"recipe.args.{by_user[0]} may make them"
    if isinstance(columns, str) and columns.endswith(".json"):
        return "recipe.args.columns is a file"
    if judged.dataset.path.name in REGISTERED:
        return f"ms-swift has a reader of its own for {judged.dataset.path.name}"
    return ""


def _is_last_round(recipe: Recipe) -> bool:
    """Return whether the last answer alone is trained on (``rlhf_args.py: _set_loss_scale``)."""
    default = "default" if recipe.preference == "orpo" else "last_round"
    return (recipe.arg("loss_scale") or default).partition("+")[0] == "last_round"


def _columns_of(judged: Judged) -> list[str]:
    if judged.form:
        return [*row_forms.COLUMNS]
    return list(dict.fromkeys(name for each in judged.files for name in each.columns))


def _judge_rows(judged: Judged, reader: Reader) -> None:
    for file in judged.files:
        for number, row in file.rows:
            faults: Mapping[str, str] = {}
            try:
                pair = reader.pair(judged.form.read(row) if judged.form else row)
            except Dropped as drop:
                judged.dropped += 1
                faults = {drop.id: str(drop)}
            except (ValueError, KeyError, TypeError, IndexError) as error:  # of the form
                judged.dropped += 1
                faults = {"dataset-row-form": f"another form than the first rows ({error})"}
            else:
                judged.pairs.append((file.path, number, pair))
                faults = pair.faults
            if row_forms.has_reasoning(row):
                why = "reasoning next to a content, which ms-swift does not read"
                faults = {**faults, "dataset-reasoning": why}
            judged.wrong += bool({*faults} - {*WARNED})
            for id, why in faults.items():
                judged.faults.append(Fault(id=id, why=why, path=file.path, row=number))


def _refuse_subsets(dataset: Dataset) -> bool:
    name = dataset.path.name
    if dataset.path.is_dir() and name in SUBSETS:
        raise dataset.refusal(
            "dataset-subset",
            "is a repository of several subsets for ms-swift",
            f"name the folder or file of one subset, e.g. hf://org/{name}@main/SUBSET",
        )
    return False


def _refuse_columns(judged: Judged, reader: Reader) -> None:
    dataset, own = judged.dataset, _columns_of(judged)
    first = first_rows(judged.files)
    if unknown := reader.unknown():
        raise dataset.refusal(
            "dataset-columns-unknown",
            f"has no column {', '.join(unknown)} of ",
            f"correct recipe.args.columns; its columns are {', '.join(own)}",
        )
    twice = Reader(columns=own, mapped=reader.mapped).twice()
    if twice:
        old, new = next(iter(twice.items()))
        raise dataset.refusal(
            "dataset-columns-twice",
            f"has a column {new}, and {old} would become it too",
            row_advice.remedy(first),
        )


def refuse(recipe: Recipe, judged: Judged) -> None:
    """Refuse what all rows have, and more dropped rows than the recipe allows; log the rest.

    Raises:
        LaunchError: DATA, naming the key, the file and the rows.
    """
    if judged.unread or not judged.faults:
        return
    dataset, first = judged.dataset, first_rows(judged.files)
    counts = Counter(fault.id for fault in judged.faults if fault.id not in WARNED)
    id = counts.most_common(1)[0][0] if counts else ""
    names = _columns_of(judged)
    if not judged.pairs and not row_forms.OWN & {*names}:
        wrong = f"has no rejected answers; its columns are {', '.join(sorted(names)) or '(none)'}"
        remedy = row_advice.remedy(first)
        raise dataset.refusal("dataset-no-pairs", wrong, remedy)
    limit = recipe.max_dropped_rows * (1 if judged.is_whole else SURE)
    is_all = judged.wrong == judged.rows
    if "dataset-tool-calls" in counts:
        id = "dataset-tool-calls"
    elif not is_all and judged.dropped / judged.rows <= limit:
        logs.warning("rows", file=dataset.path, what=describe(judged))
        return
    part = "" if judged.is_whole else f"is read in part ({judged.rows} rows), and "
    is_one = is_all or id == "dataset-tool-calls"
    remedy = row_advice.REMEDIES[id]
    if not is_one:
        remedy += f"; or raise recipe.maxDroppedRows {recipe.max_dropped_rows:g}"
    elif "columns" not in recipe.args and not judged.form and row_advice.columns(first):
        remedy = row_advice.remedy(first)  # the answer is in a column of another name
    id = id if is_one else "dataset-rows-dropped"
    raise dataset.refusal(id, f"{part}{describe(judged)}", remedy)


def describe(judged: Judged) -> str:
    """Return counts, reasons and three rows of each, as words."""
    parts = []
    for why, count in Counter(fault.why for fault in judged.faults).most_common(4):
        rows = [f for f in judged.faults if f.why == why and f.row is not None][:3]
        several = len(judged.files) > 1
        named = ", ".join(f"{f.path.name}:{f.row}" if several else str(f.row) for f in rows)
        parts.append(f"{why} in {_of(count, judged.rows)}{f' (rows {named})' if named else ''}")
    return "has " + "; ".join(parts)


def _of(count: int, rows: int) -> str:
    return f"all {rows} rows" if count == rows else f"{count} of {rows} rows"


def _count(judged: Judged) -> int | None:
    """Return an upper bound of the rows that are kept; None when it is not known."""
    total = judged.total
    if total is not None and not judged.unread and judged.is_whole:
        total -= judged.dropped
    if judged.dataset.sample is not None and total != 0:
        return judged.dataset.sample
    return total


def _refuse_unsplit(recipe: Recipe, dataset: Dataset, rows: int | None) -> None:
    """Refuse a dataset of which no row would be left (``swift/dataset/dataset_meta.py``)."""
    ratio = recipe.arg("split_dataset_ratio", "0")
    if rows is None or is_zero(ratio) or recipe.is_on("streaming"):
        return
    try:
        held_out = max(int(rows * float(ratio)), 1)
    except ValueError:  # another rule refuses it
        return
    if rows - held_out < 1 and float(ratio) < 1:
        raise dataset.refusal(
            "dataset-too-few",
            f"has {rows} row{'s' * (rows != 1)}, too few to hold out split_dataset_ratio {ratio}",
            "add rows, or remove recipe.args.split_dataset_ratio",
        )


def _refuse_too_few(recipe: Recipe, rows: int, replicas: int) -> None:
    defaults = {"micro_batch_size": "1", "global_batch_size": "16", "num_train_epochs": "1"}
    numbers = {name: recipe.arg(name, default) for name, default in defaults.items()}
    is_given = "train_iters" in recipe.args or recipe.is_on("streaming")
    if is_given or not all(text.isascii() and text.isdecimal() for text in numbers.values()):
        return
    micro, batch, epochs = (max(1, int(text)) for text in numbers.values())
    if steps(rows, micro=micro, replicas=replicas, epochs=epochs, batch=batch) == 0:
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: {rows} rows x num_train_epochs {epochs} do not fill one batch of "
            f"global_batch_size {batch} (micro_batch_size {micro} x {replicas} replicas a step)",
            "add rows or epochs, or lower recipe.args.global_batch_size",
            id="dataset-no-batch",
        )
