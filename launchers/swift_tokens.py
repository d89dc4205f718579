"""Loaded into training: rows are tokenised once, by rank 0, and kept on the workspace.

``swift/pipelines/train/sft.py`` tokenises each row for its length before the first step, and again
each time that it is drawn, in every start. With this all ranks read ``cache/tokens/<digest>``.
Where that can't be (multimodal rows, a stream, a workspace that can't be written) upstream goes on
as ever, and the log says why.
"""

import dataclasses
import importlib.metadata
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch.distributed as dist
from datasets import Dataset
from swift.arguments.base_args.data_args import DataArguments
from swift.arguments.base_args.template_args import TemplateArguments
from swift.dataset import EncodePreprocessor
from swift.pipelines.train.sft import SwiftSft
from swift.utils import append_to_jsonl, disable_safe_ddp_context_use_barrier, get_logger

from launchers import logs, manifest, marker, tokens
from launchers.exits import Exit, LaunchError
from launchers.output import FULL, Made, produce
from launchers.prepare import await_outputs
from launchers.upstream import require

PACKAGES = ("ms-swift", "transformers", "tokenizers")
SPLITS = ("train", "val")
TEXTS = "val_dataset.jsonl"
"""What upstream leaves of the held-out rows in the output folder."""
require(SwiftSft, "_prepare_dataset", "_get_dataset", "_post_process_datasets", "_show_dataset")
_prepare = SwiftSft._prepare_dataset
_logger = get_logger()


def prepare_dataset(self: Any) -> Any:
    """Return the datasets of upstream, with rows from the cache."""
    if reason := _unfit(self.args, self.template):
        _logger.info("tokens are not kept: %s", reason)
        return _prepare(self)
    found = _agree(self)
    if found is None:
        return _prepare(self)
    stored = [found / f"{name}.arrow" for name in SPLITS]
    rows = [Dataset.from_file(str(p)) if p.exists() else None for p in stored]
    datasets = self._post_process_datasets(rows)
    for dataset in filter(None, datasets):
        lazy = dataset.dataset if hasattr(dataset, "packed_idx") else dataset
        lazy.encode_func = _stored
    self._show_dataset(*datasets)
    return datasets


def _stored(row: dict[str, Any], return_length: bool = False) -> dict[str, Any]:
    """Return a stored row as the template's ``encode`` gave it: without the keys that it lacked."""
    return {key: value for key, value in row.items() if value is not None}


def _unfit(args: Any, template: Any) -> str:
    """Return why the rows of a run can't be kept; empty when they can."""
    given = [*args.dataset, *args.val_dataset]
    kind = getattr(args, "rlhf_type", None)
    reasons = {
        "streaming": args.streaming,
        "lazy_tokenize": args.lazy_tokenize,
        "cached_dataset": args.cached_dataset or args.cached_val_dataset,
        "truncation_strategy split": args.truncation_strategy == "split",
        "predict_with_generate": getattr(args, "predict_with_generate", False),
        "remove_unused_columns false": not template.remove_unused_columns,
        "a multimodal model": args.model_meta.is_multimodal,
        f"rlhf_type {kind}": kind is not None and kind not in tokens.PREFERENCES,
        "no TRAINING_HOME": not os.environ.get("TRAINING_HOME"),
        "a dataset on a hub": not all(tokens.path_of(each).exists() for each in given),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _agree(self: Any) -> Path | None:
    """Return the folder with the rows, the same on all ranks; None when there can't be one.

    Raises:
        LaunchError: CONFIG when this rank does not see what rank 0 has made.
    """
    if not dist.is_initialized():  # each process for itself; the lock lets one of them make it
        made = _make(self)
        return None if made is None else Path(made[0])
    word = [_make(self) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(word)
    if word[0] is None:
        return None
    await_outputs({"outputs": [word[0]]})
    folder = Path(word[0][0])
    _verify(folder)
    return folder


def _verify(folder: Path) -> None:
    """Compare what this rank sees with the marker: once in each node by content, else by size.

    Raises:
        LaunchError: IO, naming the file that differs.
    """
    found = marker.read(folder)
    listed = {} if found is None else found.manifest
    reads = os.environ.get("LOCAL_RANK") == "0" and dist.get_rank() != 0  # rank 0 has read it
    problems = manifest.verify(folder, listed, reads and manifest.total(listed) <= FULL)
    if problems:
        raise LaunchError(
            Exit.IO, f"{folder}: {problems[0]} here, and not on rank 0", "look at the workspace"
        )


def _make(self: Any) -> tuple[str, str] | None:
    """Make the rows if they are not there; return their folder and its digest."""
    if not logs.LOG.handlers:
        logs.configure()
    home = Path(os.environ["TRAINING_HOME"])
    made_from = _inputs(self.args)
    folder = tokens.folder(home.parents[1], made_from)
    try:
        made = produce(
            "tokens",
            folder.name,
            folder,
            made_from,
            lambda partial: _encode(self, partial),
            skip=False,
            holder=home.name,
        )
        texts, output = folder / TEXTS, Path(self.args.output_dir)
        if texts.exists() and not (output / TEXTS).exists():
            output.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(texts, output / TEXTS)
    except OSError as error:
        _logger.warning("tokens are not kept: %s", error)
    except LaunchError as error:
        if error.code not in (Exit.IO, Exit.QUOTA):
            raise
        _logger.warning("tokens are not kept: %s", error)
    else:
        return str(folder), made.digest
    return None


def _inputs(args: Any) -> dict[str, object]:
    kinds = (DataArguments, TemplateArguments)
    fields = [field.name for kind in kinds for field in dataclasses.fields(kind)]
    own = Path(__file__).resolve().parent
    given = tokens.inputs(
        flags={**{name: getattr(args, name) for name in fields}, "mode": _mode(args)},
        datasets=[*args.dataset, *args.val_dataset, *args.custom_dataset_info],
        plugins=[Path(p) for p in args.external_plugins if Path(p).resolve().parent != own],
        model=Path(args.model),
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
    )
    return marker.plain(given)


def _mode(args: Any) -> list[str]:
    names = ("task_type", "rlhf_type", "model_type")
    env = os.environ.get("RANDOM_DATASET_RESPONSE", "")
    return [*(str(getattr(args, name, None)) for name in names), env]


def _encode(self: Any, partial: Path) -> Made:
    """Tokenise all rows into a folder; the other ranks wait and take part in nothing here."""
    args, template = self.args, self.template
    kept = args.load_from_cache_file, template.model
    # upstream's cache does not see that a plugin's code has changed; a model is not to be copied
    args.load_from_cache_file, template.model = False, None
    try:
        with disable_safe_ddp_context_use_barrier():
            train, val = self._get_dataset()
            if val is not None and not args.val_dataset:
                (partial / TEXTS).unlink(missing_ok=True)
                append_to_jsonl(str(partial / TEXTS), val.to_list())
            named = {"train": train, "val": val}
            rows = {n: _rows(self, each, partial / f"{n}.arrow") for n, each in named.items()}
    finally:
        args.load_from_cache_file, template.model = kept
    if not rows["train"]:
        raise LaunchError(
            Exit.DATA,
            f"recipe.dataset: no row could be tokenised in max_length {args.max_length}",
            "see the errors above, write a larger recipe.args.max_length or mend the dataset",
        )
    return Made(notes={"rows": rows})


def _rows(self: Any, texts: Any, path: Path) -> int:
    """Tokenise and write one split; return its rows."""
    if texts is None:
        return 0
    encoded = EncodePreprocessor(template=self.template)(
        texts,
        num_proc=self.args.dataset_num_proc,
        load_from_cache_file=False,
        strict=self.args.strict,
        batch_size=1000,
    )
    if len(encoded):
        _write(encoded, path)
    return len(encoded)


def _write(encoded: Any, path: Path) -> None:
    """Write rows as an Arrow stream, token ids in 32 bits."""
    batches = _narrow(encoded)
    first = next(batches)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, first.schema) as stream:
        for batch in [first, *batches]:
            stream.write_table(batch)


def _narrow(encoded: Any) -> Iterator[Any]:
    wide, narrow = pa.list_(pa.int64()), pa.list_(pa.int32())
    for batch in encoded.with_format("arrow").iter(batch_size=1000):
        fields = [f.with_type(narrow) if f.type == wide else f for f in batch.schema]
        yield batch.cast(pa.schema(fields))


SwiftSft._prepare_dataset = prepare_dataset
