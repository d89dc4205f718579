"""The profiles of chart/networks: the schema of a file, and its row in the README's table."""

import re

from launchers.yaml_file import read_yaml
from tests.chart.helm import CHART, Document

FOLDER = CHART / "networks"
PROFILES: dict[str, Document] = {
    path.stem: read_yaml(path) for path in sorted(FOLDER.glob("*.yaml"))
}
LEVEL = {"enum": ["restricted", "baseline", "privileged"]}
TEXT = {"type": "string", "minLength": 1}
NAMED = {"type": "array", "items": {"type": "object", "required": ["name"]}, "minItems": 1}
RESOURCE = r"^([a-z0-9.-]+/[A-Za-z0-9_.-]+|hugepages-[0-9]+[MG]i)$"
FOLDERS = {"type": "string", "pattern": "^(/[A-Za-z0-9._-]+)+$"}
SCHEMA: Document = {
    "type": "object",
    "additionalProperties": False,
    "required": ["summary", "tried", "link", "transport", "podSecurity", "covers"],
    "properties": {
        "summary": TEXT,
        "tried": TEXT,
        "link": {"enum": ["tcp", "ib", "roce", "efa", "tcpxo", ""]},
        "transport": {"type": "string", "pattern": "^(NET/[A-Za-z0-9 ]+)?$"},
        "expect": {
            "type": "object",
            "additionalProperties": False,
            "required": ["busbwGBs", "gpus", "source"],
            "properties": {
                "busbwGBs": {"type": "number", "exclusiveMinimum": 0},
                "gpus": {"type": "integer", "minimum": 1, "maximum": 8},
                "source": TEXT,
            },
        },
        "podSecurity": LEVEL,
        "resources": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"pattern": RESOURCE},
            "additionalProperties": {"type": ["integer", "string"], "minimum": 1},
        },
        "covers": {"type": "array", "items": {"type": "string", "pattern": RESOURCE}},
        "attachment": TEXT,
        "env": {
            "type": "object",
            "propertyNames": {"pattern": "^(NCCL|GLOO|FI|UCX)_[A-Z0-9_]+$"},
            "additionalProperties": {"type": ["integer", "string"]},
        },
        "required": {"type": "object", "minProperties": 1, "additionalProperties": TEXT},
        "libraryPath": {"type": "array", "minItems": 1, "items": FOLDERS},
        "envFile": FOLDERS,
        "image": TEXT,
        "capabilities": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "privileged": {"const": True},
        "podSecurityContext": {"type": "object", "minProperties": 1},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "volumes": NAMED,
        "volumeMounts": NAMED,
        "initContainers": NAMED,
        "hostNetwork": {"const": True},
    },
}
"""Closed: a misspelt field would be ignored by the templates."""


def selected(profile: str) -> Document:
    """Return values that select a profile, with a word for each that it leaves to the user."""
    env = dict.fromkeys(PROFILES[profile].get("required", {}), "given")
    return {"network": {"profile": profile, "env": env}}


def row(profile: str) -> str:
    """Return the line of the table of chart/networks/README.md that follows from the file."""
    of = PROFILES[profile]
    covers = ", ".join(f"`{name}`" for name in of["covers"]) or "–"
    expect = of.get("expect")
    speed = f"{expect['busbwGBs']} with {expect['gpus']}" if expect else "–"
    cells = (f"`{profile}`", of["summary"], of["podSecurity"], covers, speed, of["tried"])
    return "| " + " | ".join(cells) + " |"


def table() -> list[str]:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `.*$", text, re.MULTILINE)
