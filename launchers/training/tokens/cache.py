"""Let rank 0 tokenise the rows once and all ranks read them from the workspace.

``swift/pipelines/train/sft.py`` tokenises each row for its length before the first step and again
each time that it is drawn, in every attempt. With this feature all ranks read
``cache/tokens/<digest>``. If that is not possible (multimodal rows, a stream, a workspace that
cannot be written), upstream's functions run unchanged, the log says why, and rows are counted while
they are read (``running.py``).
"""

import contextlib
import os
from pathlib import Path
from typing import Any

import torch.distributed as dist
from datasets import Dataset
from swift.pipelines.train import kto
from swift.pipelines.train.sft import SwiftSft
from swift.utils import get_logger

from launchers.config.recipe import PAIRED
from launchers.exits import Exit, LaunchError
from launchers.flags.features import CACHES_VARIABLE
from launchers.progress.training import note
from launchers.storage import manifest, marker
from launchers.storage.output import FULL
from launchers.storage.visible import await_outputs
from launchers.system import lookup
from launchers.system.remedies import STORAGE_REMEDY
from launchers.training.tokens import fingerprint, running
from launchers.training.tokens.make import limit, make
from launchers.training.tokens.row_account import FILE, ROW

SPLITS = ("train", "val")
_prepare = SwiftSft._prepare_dataset
_get = SwiftSft._get_dataset
_encode = SwiftSft._encode_dataset
_post_process = SwiftSft._post_process_datasets
_kl_dataset = kto._get_kl_dataset
_logger = get_logger()


def get_dataset(self: Any) -> Any:
    """Return the tokenised rows of the cache, or upstream's rows as texts if there is no cache."""
    if getattr(self, "makes_tokens", False):
        return _get(self)
    if reason := unfit(self.args, self.template):
        _logger.info("tokens are not kept: %s", reason)
    found = None if reason else _agree(self)
    if found is None:
        _count(self, reason or "the workspace did not take the tokens")
        return _get(self)
    self.has_tokens = True
    stored = [found / f"{name}.arrow" for name in SPLITS]
    return tuple(Dataset.from_file(str(p)) if lookup.exists(p) else None for p in stored)


def _count(self: Any, why: str) -> None:
    """Count rows from here on, on rank 0, if its own processes tokenise them in this run."""
    args = self.args
    if os.environ.get("RANK", "0") != "0":
        return
    is_packed_stream = args.streaming and args.packing  # other processes tokenise it
    if args.cached_dataset or args.cached_val_dataset or is_packed_stream:
        _logger.warning("rows are not counted, and maxDroppedRows is not applied: %s", why)
        attempt = os.environ.get("DPO_ATTEMPT_FOLDER")
        with contextlib.suppress(OSError):  # the warning is in the log
            if attempt:
                note(Path(attempt), {"rows_not_counted": why})
        return
    _logger.warning("rows are counted while they are read: %s", why)
    self.counts = running.begin(args)


def prepare_dataset(self: Any) -> Any:
    """Judge rows that upstream has mapped at the start; of a stream forget those that it showed."""
    made = _prepare(self)
    if counts := getattr(self, "counts", None):
        counts.end_preparation(limit())
    return made


def encode_dataset(self: Any, train: Any, val: Any, pre_process: bool = True) -> Any:
    """Return rows of the cache unchanged; they already have their lengths."""
    if getattr(self, "has_tokens", False):
        return [train, val]
    return _encode(self, train, val, pre_process=pre_process)


def post_process_datasets(self: Any, datasets: Any) -> Any:
    """Let upstream's datasets return rows of the cache instead of tokenising them."""
    made, counts = _post_process(self, datasets), getattr(self, "counts", None)
    for dataset in filter(None, made):
        lazy = dataset.dataset if hasattr(dataset, "packed_idx") else dataset
        if getattr(self, "has_tokens", False):
            lazy.encode_func = _stored
        elif counts and self.args.lazy_tokenize:
            lazy.encode_func = counts.drawing(lazy.encode_func)
    return made


def kl_dataset(dataset: Any, *args: Any) -> Any:
    """Return rows of the cache unchanged; they have the answers of KTO's KL term."""
    if dataset is not None and FILE in dataset.column_names:
        return dataset
    return _kl_dataset(dataset, *args)


def _stored(row: dict[str, Any], return_length: bool = False) -> dict[str, Any]:
    """Return a stored row as the template's ``encode`` returned it, without columns it lacked."""
    own = (ROW, FILE)
    return {key: value for key, value in row.items() if value is not None and key not in own}


def unfit(args: Any, template: Any) -> str:
    """Return why the rows of a run cannot be cached; empty if they can."""
    given = [*args.dataset, *args.val_dataset]
    kind = getattr(args, "rlhf_type", None)
    reasons = {
        "streaming": args.streaming,
        "load_from_cache_file: false": os.environ.get(CACHES_VARIABLE) == "0",
        "lazy_tokenize": args.lazy_tokenize,
        "cached_dataset": args.cached_dataset or args.cached_val_dataset,
        "truncation_strategy split": args.truncation_strategy == "split",
        "predict_with_generate": getattr(args, "predict_with_generate", False),
        "remove_unused_columns false": not template.remove_unused_columns,
        "a multimodal model": args.model_meta.is_multimodal,
        f"rlhf_type {kind}": kind not in (None, "kto", *PAIRED),
        "no DPO_RUN_FOLDER": not os.environ.get("DPO_RUN_FOLDER"),
        "a dataset on a hub": not all(fingerprint.path_of(each).exists() for each in given),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _agree(self: Any) -> Path | None:
    """Return the folder with the rows, the same on all ranks; None if there cannot be one."""
    if not dist.is_initialized():  # each process on its own; a lock lets one of them write
        made = make(self)
        return None if made is None else Path(made[0])
    sent = [make(self) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(sent)
    if sent[0] is None:
        return None
    await_outputs([sent[0]])
    folder = Path(sent[0][0])
    _verify(folder)
    return folder


def _verify(folder: Path) -> None:
    """Compare the files with the marker: by content on one rank of each node, otherwise by size."""
    found = marker.read(folder)
    listed = {} if found is None else found.manifest
    reads = os.environ.get("LOCAL_RANK") == "0" and dist.get_rank() != 0  # rank 0 has read it
    problems = manifest.verify(folder, listed, reads and manifest.total(listed) <= FULL)
    if problems:
        raise LaunchError(
            Exit.IO,
            f"{folder}: {problems[0]} on this node, but not on rank 0",
            STORAGE_REMEDY,
            id="tokens-not-shared",
        )


def install() -> None:
    """Replace the pipeline's functions that make the datasets."""
    SwiftSft._prepare_dataset = prepare_dataset
    SwiftSft._get_dataset = get_dataset
    SwiftSft._encode_dataset = encode_dataset
    SwiftSft._post_process_datasets = post_process_datasets
    kto._get_kl_dataset = kl_dataset
