"""Judges each case with the launcher, and loads and encodes it with ms-swift itself.

Runs in the training Python: ``probe MODEL FOLDER``; prints one line of JSON, a verdict for each
case.
"""

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.recipe import parse
from launchers.exits import Exit, LaunchError
from launchers.inputs import dataset_check, row_advice
from launchers.training.tokens import pair_faults
from tests.field.case import Case
from tests.field.cases import CASES

PARTLY = (
    "dataset-rows-dropped",
    "dataset-two-forms",
    "dataset-columns-unknown",
    "dataset-too-few",
    "dataset-tool-calls",
    "dataset-empty-answer",
    "dataset-prompts",
    "dataset-part",
)
"""Refusals of datasets of which ms-swift trains on a part, or on what its tokens don't show:
dropped calls, a placeholder in place of a text, an answer that is its end alone, no prompt."""


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What ms-swift makes of a dataset."""

    error: str
    rows: int
    whole: int
    """Rows with an answer on both sides, one prompt, and different answers."""


def main() -> None:
    from swift.model import get_model_processor
    from swift.template import get_template
    from swift.utils import get_logger

    get_logger().setLevel(logging.ERROR)
    _, processor = get_model_processor(sys.argv[1], load_model=False, model_type="qwen3")
    template = get_template(
        processor, template_type="qwen3_nothinking", max_length=400, loss_scale="last_round"
    )
    template.set_mode("rlhf")
    found = []
    for place, case in enumerate(CASES):
        folder = Path(sys.argv[2]) / str(place)
        folder.mkdir()
        paths = [str(path) for path in case.write(folder)]
        form, verdict, rows = _judged(case, paths)
        encoded, tokens = _encoded(template, paths, case.columns, case.args, forms=bool(form))
        is_true = _agrees(verdict, encoded)
        tried = _tried(template, paths, rows, tokens) if form and is_true else {}
        found.append([verdict, is_true and all(tried.values()), {**vars(encoded), **tried}])
    print("FIELD " + json.dumps(found))


def _tried(
    template: Any, paths: list[str], rows: list[Mapping[str, Any]], tokens: list[Any]
) -> dict[str, bool]:
    """Return whether ms-swift makes the tokens of a built-in reader with each advice too."""
    found = {}
    if columns := row_advice.columns(rows):
        found[f"with {columns}"] = _encoded(template, paths, columns, {})[1] == tokens
    if code := row_advice.plugin(rows, paths[0]):
        plugin = Path(paths[0]).parent / f"plugin_{abs(hash(paths[0]))}.py"
        plugin.write_text(code)
        found["with the plugin"] = _encoded(template, paths, {}, {}, plugin=plugin)[1] == tokens
    return found


def _judged(case: Case, paths: list[str]) -> tuple[str, str, list[Mapping[str, Any]]]:
    args: dict[str, Any] = {**case.args, **({"columns": case.columns} if case.columns else {})}
    document = {"backend": "transformers", "task": "rlhf", "model": "hf://o/m@v", "args": args}
    recipe = parse({**document, "dataset": [f"file://{path}" for path in paths]})
    datasets = [
        dataset_check.Dataset(key=f"recipe.dataset[{n}]", path=Path(path))
        for n, path in enumerate(paths)
    ]
    try:
        judged = dataset_check.check(recipe, datasets, replicas=None)
    except LaunchError as error:
        assert error.code == Exit.DATA, error
        return "", f"refused {error.id}", []
    form = judged[0].form.name if judged[0].form else ""
    faults = [fault.id for each in judged for fault in each.faults]
    rows = dataset_check.first_rows(judged[0].files)
    if faults:
        return form, f"warned {faults[0]}", rows
    return form, f"kept by {form}" if form else "kept", rows


def _agrees(verdict: str, encoded: Encoded) -> bool:
    """Return whether a verdict is true of what ms-swift makes."""
    id = verdict.rpartition(" ")[2]
    if verdict.startswith("kept"):
        return not encoded.error and encoded.rows == encoded.whole > 0
    if verdict.startswith("warned"):
        return not encoded.error and encoded.rows > 0
    if id in PARTLY:
        return True
    return bool(encoded.error) or encoded.whole == 0


def _encoded(
    template: Any,
    paths: list[str],
    columns: Mapping[str, str],
    args: Mapping[str, str],
    *,
    forms: bool = False,
    plugin: Path | None = None,
) -> tuple[Encoded, list[Any]]:
    """Return what ms-swift makes of datasets, and the tokens of both sides of each row."""
    from swift.dataset import AutoPreprocessor, EncodePreprocessor, dataset_syntax, load_dataset
    from swift.dataset.dataset_meta import DATASET_MAPPING
    from swift.utils import import_external_file

    from launchers.training.tokens import row_forms

    template._loss_scale = args.get("loss_scale", "last_round")
    before, registered = AutoPreprocessor.__call__, dict(DATASET_MAPPING)
    found, whole = [], 0
    try:
        if forms:
            row_forms.install()
        if plugin:
            import_external_file(str(plugin))
            dataset_syntax._dataset_meta_mapping = None  # a run imports plugins first
        ratio = float(args.get("split_dataset_ratio", 0))
        rows, _ = load_dataset(
            paths, columns={**columns}, load_from_cache_file=False, split_dataset_ratio=ratio
        )
        for row in rows:
            encoded = EncodePreprocessor(template=template).batched_preprocess(
                {name: [value] for name, value in row.items()},
                strict=False,
                ignore_max_length_error=True,
            )
            if encoded.get("chosen_input_ids"):
                made = {name: values[0] for name, values in encoded.items()}
                found.append([made[f"{side}_input_ids"] for side in ("chosen", "rejected")])
                wrong = {*pair_faults.faults(made, row["messages"])}
                whole += not wrong - {*pair_faults.WARNED}
    except Exception as error:
        return Encoded(error=f"{type(error).__name__}: {error}"[:200], rows=0, whole=0), []
    finally:
        AutoPreprocessor.__call__ = before
        DATASET_MAPPING.clear()
        DATASET_MAPPING.update(registered)
        dataset_syntax._dataset_meta_mapping = None
    return Encoded(error="", rows=len(found), whole=whole), found


if __name__ == "__main__":
    main()
