"""Flags of ms-swift 2.x and 3.x, and of other trainers, with today's name: ``renames.yaml``."""

import re
from pathlib import Path

from launchers.yaml_file import read_yaml


def _flags(rows: dict[str, str | list[str]]) -> dict[str, str]:
    """Return the advice by flag; flags are words, and a list of such texts is one."""
    texts = {advice: [each] if isinstance(each, str) else each for advice, each in rows.items()}
    return {flag: advice for advice, each in texts.items() for flag in " ".join(each).split()}


_FILE = Path(__file__).with_suffix(".yaml")
_TABLE = {part: _flags(rows) for part, rows in read_yaml(_FILE).items()}
RENAMED = {name: _TABLE["both"] | _TABLE[name] for name in ("megatron", "transformers")}
"""Backend to old flag to advice."""

LAUNCHERS = frozenset((
    "model", "mcore_model", "ref_model", "mcore_ref_model", "dataset", "output_dir", "add_version",
    "resume_from_checkpoint", "load_args", "ignore_args_error", "use_hf",
))  # fmt: skip
"""Flags of both backends that the launcher alone sets."""
OWNED: dict[str, frozenset[str]] = {"megatron": LAUNCHERS | {"finetune"}, "transformers": LAUNCHERS}
"""Backend to the flags that the launcher alone sets, since they say whether a run resumes."""

_SECRET = re.compile(r"(?:\w+_)?(?:token|secret|password|api_key|access_key|webhook_url)")


def secret_advice(flag: str) -> str:
    """Return where a flag's value belongs if it is a secret, otherwise an empty text.

    Recipes travel in a ConfigMap, command lines in the process table: neither holds secrets.

    >>> secret_advice("hub_token")
    'set secrets.hf.existingSecret or secrets.modelscope.existingSecret'
    >>> secret_advice("max_new_tokens")
    ''
    """
    if not _SECRET.fullmatch(flag):
        return ""
    if flag.startswith("hub_"):
        return "set secrets.hf.existingSecret or secrets.modelscope.existingSecret"
    if flag == "swanlab_token":
        return "set extraEnv.SWANLAB_API_KEY: {valueFrom: {secretKeyRef: {name: SECRET, key: KEY}}}"
    return "let a plugin read it from extraEnv.NAME: {valueFrom: {secretKeyRef: ...}}"
