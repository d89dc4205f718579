"""The files of the ledger: one Parquet file for the steps from one checkpoint to the next.

    pairs/steps-00000001.parquet   one row for each pair and epoch, named by its first step
    pairs/summary.json             of all files (``summary.py``)

A part is complete before the checkpoint of its last step is, so that a checkpoint never has steps
without pairs. Pairs of steps after the newest checkpoint are removed before they are trained again.
"""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from launchers.system import lookup
from launchers.system.atomic_file import replace
from launchers.training.ledger.summary import Columns, summary

FOLDER, SUMMARY = "pairs", "summary.json"
_NAME, _ALL = "steps-{:08d}.parquet", "steps-*.parquet"
WHOLE = {"step": "int32", "epoch": "int32", "pair": "int32", "pack": "int32", "row": "int32"}
"""``epoch`` counts from 1; ``pair`` is the position in the tokenised dataset; ``pack`` is -1 where
rows are not packed; ``row`` is the line of ``file`` from 1."""
REAL = ("weight", "chosen", "rejected", "reference_chosen", "reference_rejected", "margin")
"""``weight``: the pair's share in the loss of its step. Log-probabilities are sums over the tokens
of an answer, in nats; ``margin`` is the difference of the rewards."""


class Parts:
    """The ledger of one run, as the rank that writes it sees it."""

    def __init__(self, home: Path, resumed: int) -> None:
        """Take the run's folder and the step that this attempt begins after."""
        self.folder, self.resumed, self.is_cut = home / FOLDER, resumed, False
        self.tables: dict[Path, Any] = {}

    def cut(self) -> None:
        """Remove the pairs of later steps than the one that was resumed from; once."""
        if self.is_cut:
            return
        for path in lookup.matching(self.folder, _ALL):
            if int(path.stem.rpartition("-")[2]) > self.resumed:
                path.unlink()
                continue
            table = pq.read_table(path)
            kept = table.filter(pa.array(table["step"].to_numpy() <= self.resumed))
            if len(kept) < len(table):
                replace(path, _bytes(kept))
        self.is_cut = True

    def write(self, columns: Columns, files: list[str], pairs: int) -> None:
        """Write the pairs of some steps, and the summary of all.

        ``columns``: of ``WHOLE`` and ``REAL``, and ``file`` as positions in ``files``.
        """
        self.cut()
        self.folder.mkdir(parents=True, exist_ok=True)
        if len(columns["step"]):
            order = np.lexsort((columns["pair"], columns["epoch"], columns["step"]))
            made = {name: pa.array(columns[name][order], kind) for name, kind in WHOLE.items()}
            made |= {name: pa.array(columns[name][order], "float32") for name in REAL}
            named = pa.array(columns["file"][order], "int32")
            made["file"] = pa.DictionaryArray.from_arrays(named, pa.array(files, "string"))
            path = self.folder / _NAME.format(int(columns["step"].min()))
            replace(path, _bytes(pa.table(made)))
            self.tables[path] = pa.table(made)
        found = summary(*read(self.folder, self.tables), pairs)
        replace(self.folder / SUMMARY, json.dumps(found, indent=1, allow_nan=False) + "\n")


def read(folder: Path, known: dict[Path, Any] | None = None) -> tuple[Columns, list[str]]:
    """Return all columns of a ledger, and the names of the files that ``file`` points into.

    Parts that are read now are added to ``known``.
    """
    known = {} if known is None else known
    paths = lookup.matching(folder, _ALL)
    known |= {path: pq.read_table(path) for path in paths if path not in known}
    tables = [known[path] for path in paths]
    if not tables:
        return {name: np.zeros(0) for name in (*WHOLE, *REAL, "file")}, []
    table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    found: dict[str, Any] = {name: table[name].to_numpy() for name in (*WHOLE, *REAL)}
    named = table["file"].chunk(0) if len(table) else None
    found["file"] = np.zeros(0, "int32") if named is None else named.indices.to_numpy()
    return found, [] if named is None else named.dictionary.to_pylist()


def joined(parts: list[Mapping[str, Any]]) -> Columns:
    """Return the columns of several ranks or steps as one."""
    names = parts[0] if parts else ()
    return {name: np.concatenate([each[name] for each in parts]) for name in names}


def _bytes(table: Any) -> bytes:
    made = io.BytesIO()
    pq.write_table(table, made, compression="zstd")
    return made.getvalue()
