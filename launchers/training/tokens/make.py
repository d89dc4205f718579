"""Tokenise the rows of a dataset with ms-swift's own functions, on one rank."""

import dataclasses
import importlib.metadata
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from swift.arguments.base_args.data_args import DataArguments
from swift.arguments.base_args.template_args import TemplateArguments
from swift.dataset import EncodePreprocessor
from swift.utils import append_to_jsonl, disable_safe_ddp_context_use_barrier, get_logger

from launchers import logs
from launchers.exits import Exit, LaunchError
from launchers.flags.external_plugins import users_plugins
from launchers.flags.features import DROPPED_VARIABLE
from launchers.inputs import row_forms
from launchers.progress import row_counts
from launchers.progress.training import PACKING
from launchers.reference.policy import original
from launchers.storage import disk, manifest, marker
from launchers.storage.output import Made, produce
from launchers.system.atomic_file import replace
from launchers.training.installed import INSTALLED
from launchers.training.tokens import fingerprint, row_verdict
from launchers.training.tokens.row_account import ROW, Account, counting

PACKAGES = ("ms-swift", "transformers", "tokenizers")
TEXTS = "val_dataset.jsonl"
"""File with the held-out rows, which upstream writes to the output folder."""
_logger = get_logger()


def make(self: Any) -> tuple[str, str] | None:
    """Tokenise the rows unless they are cached; return their folder and its digest, or None."""
    if not logs.LOG.handlers:
        logs.configure()
    home = Path(os.environ["DPO_RUN_FOLDER"])
    try:
        made_from = _inputs(self.args)
        folder = fingerprint.folder(home.parents[1], made_from)
        made = produce(
            "tokens",
            folder.name,
            folder,
            made_from,
            lambda partial: _tokenise(self, partial),
            skip=False,
            holder=home.name,
            is_cache=True,
        )
        disk.note_use(folder)
        _judge(folder)
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
    flags = {**{name: getattr(args, name) for name in fields}, "mode": _mode(args)}
    if "row_forms" in INSTALLED:
        flags["row_forms"] = [manifest.entry(file).sha256 for file in row_forms.FILES]
    given = fingerprint.inputs(
        flags=flags,
        datasets=[*args.dataset, *args.val_dataset, *args.custom_dataset_info],
        plugins=map(Path, users_plugins(args.external_plugins)),
        model=original(args),
        versions={name: importlib.metadata.version(name) for name in PACKAGES},
    )
    return marker.plain(given)


def _mode(args: Any) -> list[str]:
    names = ["task_type", "rlhf_type", "model_type", "new_special_tokens"]
    if _is_kto(args):  # the batches whose answers its KL term exchanges
        names += ["loss_type", "global_batch_size", "per_device_train_batch_size"]
        names += ["gradient_accumulation_steps", "global_world_size"]
    env = os.environ.get("RANDOM_DATASET_RESPONSE", "")
    return [*(str(getattr(args, name, None)) for name in names), env]


def _is_kto(args: Any) -> bool:
    return getattr(args, "rlhf_type", None) == "kto"


def _tokenise(self: Any, partial: Path) -> Made:
    """Tokenise all rows into a folder; the other ranks wait and take no part."""
    args, template = self.args, self.template
    kept = args.load_from_cache_file, template.model
    # upstream's cache does not notice changed plugin code; the model must not be copied
    args.load_from_cache_file, template.model = False, None
    self.makes_tokens = True
    is_left_cut = args.truncation_strategy == "left"
    account = Account(partial / "rows.jsonl", is_left_cut=is_left_cut, is_kto=_is_kto(args))
    try:
        with disable_safe_ddp_context_use_barrier(), counting(account):
            train, val = self._get_dataset()
            if val is not None and not args.val_dataset:
                (partial / TEXTS).unlink(missing_ok=True)
                append_to_jsonl(str(partial / TEXTS), val.remove_columns(_own(val)).to_list())
            named = {"train": train, "val": val}
            rows = {n: _rows(self, each, partial / f"{n}.arrow") for n, each in named.items()}
    except Exception:  # of upstream, where too few rows are left to sample or to hold out
        found = account.document()
        found["kept"] = found["read"] - row_verdict.dropped(found)
        row_verdict.refuse(found, limit())
        raise
    finally:
        args.load_from_cache_file, template.model = kept
        self.makes_tokens = False
    found = account.document()
    account.path.unlink(missing_ok=True)
    if not rows["train"]:
        row_verdict.refuse(found, 0)
    return Made(notes={"rows": rows, "account": found})


def _own(rows: Any) -> list[str]:
    return [ROW] if ROW in rows.column_names else []


def _judge(folder: Path) -> None:
    """Log the counts of the rows, write them to the attempt's folder, and end the run on them."""
    noted = marker.read(folder)
    assert noted is not None, "it has just been verified"
    found = noted.made["account"]
    summary = row_counts.summary(found)
    _logger.info("rows %s", json.dumps(summary))
    for complaint in row_verdict.complaints(found):
        _logger.warning("rows %s", complaint)
    if attempt := os.environ.get("DPO_ATTEMPT_FOLDER"):
        replace(Path(attempt) / PACKING, json.dumps(summary, indent=1) + "\n")
    row_verdict.refuse(found, limit())


def limit() -> float:
    """Return ``recipe.maxDroppedRows``."""
    return float(os.environ.get(DROPPED_VARIABLE, "1"))


def _rows(self: Any, texts: Any, path: Path) -> int:
    """Tokenise and write one split; return the number of its rows."""
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
    """Write rows as an Arrow stream with token ids in 32 bits."""
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
