"""Write ``launchers/upstream/templates.json``: the models and templates that ms-swift knows.

``python -m scripts.dev.templates`` asks the registries of the installed releases, which must be
imported: their names are made in loops. Where two differ, the one with fewer choices counts: what
one of them can choose is not refused.
"""

import ast
import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.dev.flags import VENVS, json_text
from scripts.helm import ROOT

TARGET = ROOT / "launchers" / "upstream" / "templates.json"
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
    """Return the tables for several releases, the oldest first."""
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
    return json_text(
        {
            "types": dict(sorted(types.items())),
            "templates": dict(sorted(templates.items())),
            "unpacked": sorted(unpacked),
            "unpacked_architectures": sorted(architectures),
            "not_on_megatron": sorted({*types} - on_megatron),
        }
    )


if __name__ == "__main__":
    TARGET.write_text(render(ask(venv) for venv in VENVS), encoding="utf-8")
