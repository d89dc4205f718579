"""Golden manifests, the differences of the other values files from them, and the NOTES."""

import difflib
import json
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.chart import helm
from tests.chart.fabrics import PROFILES, selected
from tests.chart.helm import CHART, ROOT, Document, jobs, kind, merged, render, template_file, walk
from tests.chart.test_crd import FULL

FILES = sorted((ROOT / "values").glob("*.yaml"))
FIRST = "a100-2node"
"""The file whose whole manifest is kept."""
SIZES = (1, 2, 4, 8)
NEAREST = {
    **dict.fromkeys(("demo-cpu", "e2e", "baselines/seed-2node", "hardware/h200-16"), FIRST),
    "demo-megatron": "demo-cpu",
    "gke-a4": "hardware/b200-16",
    **{f"hardware/h200-{gpus}": f"hardware/h200-{2 * gpus}" for gpus in SIZES},
    **{f"hardware/b200-{gpus}": f"hardware/h200-{gpus}" for gpus in (*SIZES, 16)},
    **{f"hardware/80g-{gpus}": f"hardware/h200-{gpus}" for gpus in SIZES[1:]},
}
"""The other files, each with the one from which its manifest differs least."""
GOLDEN = Path(__file__).with_name("golden")
CHANGED = "look at the difference; if it is wanted, run `make golden`"
SOURCES = "checksum/launchers"
LAYERS: dict[str, Document] = {
    "every-option": FULL,
    "lost": {"nodes": 1, "gpusPerNode": 1, "workspace": {"existingClaim": None, "emptyDir": {}}},
    "export": {
        "workspace": {"existingClaim": None, "subPath": "a", "nfs": {"server": "h", "path": "/e"}},
        "extraVolumes": [{"name": "disk", "hostPath": {"path": "/mnt"}}],
        "podSecurityContext": {"runAsNonRoot": False, "seccompProfile": {"type": "Unconfined"}},
        "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"drop": ["KILL"]}},
    },
}
"""Values of the cases whose NOTES say something else."""
NOTES = [*(file.stem for file in FILES), *LAYERS]


def without_sources(documents: list[Document]) -> list[Document]:
    """Leave out the launcher's archive, which other tests compare with the files."""
    for _, node in walk(documents):
        if isinstance(node, dict) and SOURCES in node:
            node[SOURCES] = "-"
        if isinstance(node, dict) and node.get("kind") == "ConfigMap":
            if "data" in node:
                node["data"]["recipe.yaml"] = yaml.safe_load(node["data"]["recipe.yaml"])
            node["binaryData"] = dict.fromkeys(node["binaryData"], "-")
    return documents


def difference(before: list[str], after: list[str]) -> list[str]:
    """Return the lines that differ.

    Their numbers are left out: one line that comes to the first text would move them all.
    """
    lines = [*difflib.unified_diff(before, after, n=0, lineterm="")][2:]
    return ["@@" if line.startswith("@@") else line for line in lines]


def folded(documents: list[Document]) -> list[Document]:
    """Leave of each job of the JobSet but the first what differs from the one before it."""
    spec = kind(documents, "JobSet")["spec"]
    texts = [yaml.safe_dump(job, width=100).splitlines() for job in spec["replicatedJobs"]]
    spec["replicatedJobs"][1:] = map(difference, texts, texts[1:])
    return documents


@pytest.mark.parametrize("name", [FIRST, "every-option"])
def test_the_manifest_is_the_golden_one(name: str, update_golden: bool) -> None:
    values = ROOT / "values" / f"{name}.yaml"
    rendered = folded(without_sources(template_file(values) if name == FIRST else render(FULL)))
    golden = GOLDEN / f"{name}.yaml"
    if update_golden:
        golden.write_text(yaml.safe_dump_all(rendered, width=100), encoding="utf-8")
    expected = list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))
    assert rendered == expected, CHANGED


def compare(file: str, text: str, update_golden: bool) -> None:
    golden = GOLDEN / file
    if update_golden:
        golden.write_text(text, encoding="utf-8")
    assert golden.exists(), f"no {file}: run `make golden`"
    assert text == golden.read_text(encoding="utf-8"), CHANGED


def changed(before: list[str], after: list[str]) -> str:
    return "".join(f"{line}\n" for line in difference(before, after))


@cache
def template_of_the_gang(profile: str) -> list[str]:
    documents = without_sources(render(selected(profile)))
    return yaml.safe_dump(jobs(documents)["node"]["template"], width=100).splitlines()


@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_network_changes_is_the_golden_change(profile: str, update_golden: bool) -> None:
    text = changed(template_of_the_gang("custom"), template_of_the_gang(profile))
    compare(f"network-{profile}.diff", text, update_golden)


@cache
def lines_of(name: str) -> list[str]:
    """Return a file's manifest as lines of YAML, under one name and without its checksums."""
    documents = without_sources(template_file(ROOT / "values" / f"{name}.yaml", name="run"))
    lines = yaml.safe_dump_all(documents, width=100).splitlines()
    return [line for line in lines if "checksum/" not in line]


@pytest.mark.parametrize("name", NEAREST)
def test_what_a_file_changes_is_the_golden_change(name: str, update_golden: bool) -> None:
    text = changed(lines_of(NEAREST[name]), lines_of(name))
    compare(f"{name.replace('/', '-')}.diff", text, update_golden)


def test_every_file_is_compared() -> None:
    added = (f for of in ("hardware", "baselines") for f in (ROOT / "values" / of).glob("*"))
    names = {*(file.stem for file in FILES), *(f"{f.parent.name}/{f.stem}" for f in added)}
    assert names == {FIRST, *NEAREST}


@pytest.mark.parametrize("case", NOTES)
def test_the_notes_are_the_golden_ones(case: str, tmp_path: Path, update_golden: bool) -> None:
    file = ROOT / "values" / f"{case}.yaml"
    if case in LAYERS:
        file = tmp_path / "values.yaml"
        file.write_text(json.dumps(merged(LAYERS[case])), encoding="utf-8")
    command = ("install", "dpo-42", str(CHART), "--dry-run=client", "-n", "ml")
    done = helm.call(*command, *helm.layers(file))
    assert done.returncode == 0, done.stderr
    notes = "\n".join(line.rstrip() for line in done.stdout.partition("NOTES:\n")[2].splitlines())
    compare(f"{case}.txt", f"{notes.strip()}\n", update_golden)


def test_no_golden_file_is_left_over() -> None:
    names = {f"{FIRST}.yaml", "every-option.yaml", *(f"{case}.txt" for case in NOTES)}
    names |= {f"network-{profile}.diff" for profile in PROFILES}
    names |= {f"{name.replace('/', '-')}.diff" for name in NEAREST}
    assert {p.name for p in GOLDEN.iterdir()} == names
