"""Upgrades of a chart whose look-up reads a file: what the cluster would hold."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.chart import helm
from tests.chart.helm import CHART, UPGRADE, Document, Refused, kind, merged, objects, template

READER = '{{- define "megatron-dpo.clusterState" -}}{{ .Files.Get "live.json" }}{{- end }}'


def reading(folder: Path) -> Path:
    """Copy the chart to a folder, with another look-up."""
    shutil.copytree(CHART, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / helm.LIBRARY / "templates" / "upgrade" / "_cluster_state.tpl").write_text(READER)
    return folder


def put(chart: Path, *layers: Document, suspended: bool = False, without: str = "") -> None:
    """Let the cluster hold what was installed with some values."""
    found: Document = {"ConfigMap": {}, "JobSet": {}, "PersistentVolumeClaim": {}}
    installed = objects(template(merged(*layers), chart=chart, is_cached=False))
    found |= {o["kind"]: kind(installed, o["kind"]) for o in installed}
    # Fields that the controllers add.
    found["JobSet"]["spec"]["suspend"] = suspended
    if found["PersistentVolumeClaim"]:
        found["PersistentVolumeClaim"]["spec"] |= {"storageClassName": "slow", "volumeName": "v"}
    found |= {without: {}} if without else {}
    (chart / "live.json").write_text(json.dumps(found))


def render(chart: Path, *layers: Document, flags: Sequence[str] = ()) -> str:
    """Render an upgrade, not cached: the file that is looked up changes."""
    return template(merged(*layers), UPGRADE, *flags, chart=chart, is_cached=False)


def upgrade(chart: Path, *layers: Document, flags: Sequence[str] = ()) -> str:
    try:
        render(chart, *layers, flags=flags)
    except Refused as refused:
        assert "is one run" in str(refused)
        return str(refused)
    return ""


def changes(text: str) -> list[str]:
    """Return what a refusal names, without the ids; each line has one."""
    lines = re.findall(r"^- (.*)$", text, re.MULTILINE)
    named = [match for line in lines if (match := re.fullmatch(r"(.*) \[upgrade-[a-z-]+\]", line))]
    assert len(named) == len(lines)
    return [match[1] for match in named]
