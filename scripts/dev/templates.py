"""Write ``launchers/upstream/templates.py``: the models and templates that ms-swift knows.

``python -m scripts.dev.templates`` asks the registries of the installed releases, which must be
imported: their names are made in loops. Where two differ, the one with fewer choices counts: what
one of them can choose is not refused.
"""

import ast
import json
import subprocess
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.dev.flags import VENVS
from scripts.helm import ROOT

TARGET = ROOT / "launchers" / "upstream" / "templates.py"
ASK = """
import json, swift.model, swift.template
from swift.model.model_meta import MODEL_MAPPING, _get_arch_mapping
from swift.template.register import TEMPLATE_MAPPING
uses = {}
for meta in MODEL_MAPPING.values():
    for name in meta.candidate_templates:
        uses.setdefault(name, set()).add(meta.is_multimodal)
def packs(name):
    given = TEMPLATE_MAPPING[name].template_cls.support_padding_free
    return False in uses.get(name, {False}) if given is None else given
unpacked = {name for name in TEMPLATE_MAPPING if not packs(name)}
types = {name: found for name, found in _get_arch_mapping().items() if name != "null"}
mcore = [name for name, meta in MODEL_MAPPING.items() if getattr(meta, "mcore_model_type", None)]
candidates = {name: meta.candidate_templates for name, meta in MODEL_MAPPING.items()}
print("\\n" + json.dumps({
    "types": types,
    "templates": {n: c for n, c in candidates.items() if MODEL_MAPPING[n].template is None},
    "mcore": mcore,
    "unpacked": sorted(unpacked),
    "unpacked_architectures": sorted(
        n for n, found in types.items() if {t for m in found for t in candidates[m]} <= unpacked
    ),
}))
"""
"""Source: ``swift/pipelines/train/sft.py`` refuses packing where ``support_padding_free`` is false,
or not set and the model is multimodal."""
HEADER = '''\
"""Models and templates that ms-swift knows; made by ``scripts/dev/templates.py``, do not edit."""

# ruff: noqa: SIM905


def _table(text: str) -> dict[str, list[str]]:
    rows = (row.split(":") for row in " ".join(text.split()).split("; "))
    return {{name: names.split() for name, names in rows}}


TYPES = _table("""
{types}
""")
"""Architecture of config.json to its model types in ms-swift."""
TEMPLATES = _table("""
{templates}
""")
"""Model type to its templates, where ms-swift chooses among them by the model's name."""
UNPACKED = tuple(
    """
{unpacked}
""".split()
)
"""Templates for which ms-swift refuses packing and padding_free."""
UNPACKED_ARCHITECTURES = frozenset(
    """
{unpacked_architectures}
""".split()
)
"""Architectures all of whose templates are ``UNPACKED``."""
NOT_ON_MEGATRON = frozenset(
    """
{not_on_megatron}
""".split()
)
"""Architectures none of whose model types mcore-bridge has, in any of the releases."""
'''


def ask(venv: Path) -> dict[str, Any]:
    """Return what the ms-swift of a training environment knows."""
    made = subprocess.run(
        [venv / "bin" / "python", "-c", ASK], capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    bridge = venv.with_name(venv.name.replace("train", "oracle")) / "mcore_bridge" / "model"
    for file in bridge.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "ModelMeta":
                answer["mcore"] += ast.literal_eval(node.args[1])
    return answer


def render(answers: Iterable[Mapping[str, Any]]) -> str:
    """Return the module for several releases, the oldest first."""
    types: dict[str, list[str]] = {}
    templates: dict[str, list[str]] = {}
    unpacked, architectures, on_megatron = set[str](), set[str](), set[str]()
    for each in answers:
        for table, found in ((types, each["types"]), (templates, each["templates"])):
            for name, choices in found.items():
                table[name] = min(table.get(name, choices), choices, key=len)
        known = set(each["mcore"])
        on_megatron |= {name for name, found in each["types"].items() if known & set(found)}
        unpacked |= set(each["unpacked"])
        architectures |= set(each["unpacked_architectures"])
    return HEADER.format(
        types=_rows(types),
        templates=_rows(templates),
        unpacked=_wrapped(sorted(unpacked)),
        unpacked_architectures=_wrapped(sorted(architectures)),
        not_on_megatron=_wrapped(sorted({*types} - on_megatron)),
    )


def _rows(table: Mapping[str, Iterable[str]]) -> str:
    return _wrapped([f"{name}: {' '.join(found)}" for name, found in sorted(table.items())], "; ")


def _wrapped(words: Iterable[str], separator: str = " ") -> str:
    return textwrap.fill(separator.join(words), 99, break_on_hyphens=False)


if __name__ == "__main__":
    TARGET.write_text(render(ask(venv) for venv in VENVS), encoding="utf-8")
