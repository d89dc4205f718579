"""Flags that name files of the user's training code: relative paths start in the clone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from launchers.config.flag_value import Value, words
from launchers.config.sources import split_count
from launchers.exits import Exit, LaunchError
from launchers.system import lookup

PLUGINS = "external_plugins"
ALWAYS_FILES = ("custom_register_path", "custom_dataset_info")
"""Each word is a file (``swift/arguments/base_args``)."""
ROW_MAKERS = ("columns", PLUGINS, *ALWAYS_FILES)
"""Flags by which a user's code or map of columns makes the rows of the datasets."""
CONFIGS = ("deepspeed", "teacher_deepspeed", "fsdp", "fsdp_config", "accelerator_config")
"""A preset of ms-swift, JSON, or a file (``swift/arguments/sft_args.py``)."""
BY_SUFFIX = {
    **dict.fromkeys(("columns", "device_map", "max_memory", "model_kwargs", "mrl_dims"), ".json"),
    **dict.fromkeys(("rope_scaling", "vit_gradient_checkpointing_kwargs"), ".json"),
    **dict.fromkeys(("system", "new_special_tokens"), ".txt"),
}
"""A file if the value ends so, otherwise JSON (``swift/utils/utils.py: json_parse_to_dict``) or a
text (``swift/arguments/base_args``)."""
DATASETS = ("val_dataset",)
"""Each word is a file if it ends so, with or without ``#`` and a number of rows; otherwise a name
of a hub or of a plugin (``swift/dataset/dataset_syntax.py``)."""
_ROWS = (".jsonl", ".json", ".csv", ".parquet", ".txt", ".arrow")


def resolved(args: Mapping[str, Value], clone: Path | None) -> dict[str, Value]:
    """Return those flags of a recipe that name files, with absolute paths.

    Relative paths start in ``clone``.

    Raises:
        LaunchError: CONFIG for a relative path without a clone.
    """
    found: dict[str, Value] = {}
    for flag in (*ALWAYS_FILES, *CONFIGS, *BY_SUFFIX, *DATASETS):
        value = args.get(flag, "")
        if isinstance(value, list):
            found[flag] = [
                in_clone(f"recipe.args.{flag}", word, clone) if _is_file(flag, word) else word
                for word in value
            ]
        elif isinstance(value, str) and value and _is_file(flag, value):
            found[flag] = in_clone(f"recipe.args.{flag}", value, clone)
    return found


def verify(args: Mapping[str, Value], script: Sequence[str], clone: Path | None) -> None:
    """Verify that the clone has the files that flags name, and the script.

    ``script`` has its arguments, and is empty without one.

    Raises:
        LaunchError: INPUT_MISSING for a file that it does not have.
    """
    if clone is None:
        return
    plugins = [
        in_clone(f"recipe.args.{PLUGINS}", each, clone) for each in words(args.get(PLUGINS, []))
    ]
    named = {PLUGINS: plugins, **resolved(args, clone)}
    found = {f"recipe.args.{flag}": value for flag, value in named.items()}
    found["recipe.script"] = [in_clone("recipe.script", each, clone) for each in script[:1]]
    for key, value in found.items():
        for word in map(str, words(value)):
            path = Path(split_count(word)[0] if key.rpartition(".")[2] in DATASETS else word)
            if path.is_relative_to(clone) and not lookup.exists(path):
                raise LaunchError(
                    Exit.INPUT_MISSING,
                    f"{key}: the clone has no file {str(path.relative_to(clone))!r}",
                    "use the path of a file that code.url has at code.ref",
                    id="code-file-missing",
                )


def _is_file(flag: str, word: str) -> bool:
    if flag in BY_SUFFIX:
        return "\n" not in word and word.endswith(BY_SUFFIX[flag])
    if flag in DATASETS:
        return "://" not in word and split_count(word)[0].endswith(_ROWS)
    return flag in ALWAYS_FILES or _is_path(word)


def in_clone(key: str, path: str, clone: Path | None) -> str:
    """Return the absolute path of a file that a flag, or a key of the recipe, names.

    Raises:
        LaunchError: CONFIG for a relative path without a clone.
    """
    if Path(path).is_absolute():
        return path
    if clone is None:
        raise LaunchError(
            Exit.CONFIG,
            f"{key}: {path!r} is a relative path, but there is no clone",
            "set code.url and code.ref, or use an absolute path",
            id="plugin-no-clone",
        )
    return str(clone / path)


def _is_path(text: str) -> bool:
    """Return whether a value is a file, not the name of a preset or JSON.

    >>> [_is_path(text) for text in ("zero2", "conf/z2", "ds.json", '{"a": "b/c"}', "fsdp2")]
    [False, True, True, False, False]
    """
    text = text.strip()
    return not text.startswith("{") and ("/" in text or text.endswith(".json"))
