"""What the installed transformers makes of a model's config.json: its own class, and the model.

The class validates its values (``configuration_utils.py``), and building the model without memory
for its weights finds what no class validates: activations, kinds of RoPE, sizes that fit nowhere.
Importing transformers takes 3 to 5 s, so a process of its own does it, once for each config.json.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import util
from pathlib import Path

from launchers import logs

NAME = "config.json"
"""The file of a model's architecture and sizes."""
_SECONDS = 180.0
_PROGRAM = """
import sys
import torch
from transformers import AutoConfig, AutoModelForCausalLM, __version__
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
wrong, kind = "", sys.argv[2]
if kind in CONFIG_MAPPING:
    try:
        config = AutoConfig.from_pretrained(sys.argv[1])
        if type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
            with torch.device("meta"):
                AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    except (ImportError, OSError, MemoryError):
        raise
    except Exception as error:
        wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
print("judged", __version__, wrong, sep="\\t")
"""


def is_own(config: Mapping[str, object]) -> bool:
    """Return whether code of the model reads its config.json."""
    own = config.get("auto_map")
    return isinstance(own, dict) and "AutoConfig" in own


def refused(config: Mapping[str, object]) -> str:
    """Return why the installed transformers refuses a config.json; empty if it does not.

    It is not judged, and the log says so, where transformers is not installed or does not end; what
    code of the model or of ms-swift reads is not judged either.
    """
    if is_own(config):
        return ""
    return _refused(json.dumps(config), str(config.get("model_type")))


@cache
def _refused(text: str, kind: str) -> str:
    if util.find_spec("transformers") is None or util.find_spec("torch") is None:
        logs.info(f"{NAME} not judged by its class", why="transformers is not installed here")
        return ""
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / NAME).write_text(text)
        words = [sys.executable, "-c", _PROGRAM, folder, kind]
        try:
            done = subprocess.run(
                words, env={**os.environ, **hidden}, capture_output=True, timeout=_SECONDS
            )
            why = f"{done.stderr.decode(errors='replace').strip()[-300:]} ({done.returncode})"
            lines = done.stdout.decode(errors="replace").splitlines()
        except subprocess.TimeoutExpired:
            why, lines = f"no end after {_SECONDS:.0f} s", []
    rows = [line.split("\t") for line in lines if line.startswith("judged\t")]
    if not rows:
        logs.warning(f"{NAME} not judged by its class", why=why)
        return ""
    _, release, wrong = rows[-1]
    keys = " and ".join(dict.fromkeys(_keys(json.loads(text), wrong)))
    where = f" ({keys})" if keys else ""
    return f"transformers {release} refuses its {NAME}{where}: {wrong}" if wrong else ""


def _keys(value: object, wrong: str, name: str = "") -> Iterator[str]:
    """Yield the keys with the text that an error names without its key.

    >>> list(_keys({"rope_scaling": {"rope_type": "ntk"}}, "KeyError: 'ntk'"))
    ['rope_scaling.rope_type']
    """
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _keys(each, wrong, f"{name}.{key}".lstrip("."))
    elif isinstance(value, str) and wrong == f"KeyError: {value!r}":
        yield name
