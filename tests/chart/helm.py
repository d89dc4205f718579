"""The chart as Helm renders it, once per input: by the renderer, or by a Helm that a test names."""

import atexit
import base64
import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import scripts.helm
from launchers.yaml_file import LOADER
from scripts import archive
from scripts.dev import pod_schema
from tests.chart import renderer

ROOT = Path(__file__).parents[2]
CHART = ROOT / "chart"
LIBRARY = Path("charts") / "library"
"""Folder of the subchart with the named templates and the tables of flags, in the chart."""
KUBERNETES = f"{pod_schema.lowest((CHART / 'Chart.yaml').read_text(encoding='utf-8'))}.0"
"""The lowest supported; given to Helm, since a Helm 3 built from source believes in 1.20."""

UPGRADE, SKIP = "--is-upgrade", "--skip-schema-validation"
"""Flags of Helm that the renderer knows."""
BY_SCHEMA = "values don't meet the specifications of the schema(s)"
"""Of Helm's refusal by values.schema.json."""
CALL = scripts.helm.Release._call
"""Helm itself."""
Document = dict[str, Any]

BASE: Document = {
    "recipe": {
        "model": "hf://org/model@main",
        "dataset": ["hf://org/data@main"],
        "args": {"num_train_epochs": 1},
    },
    "workspace": {"existingClaim": "shared"},
}
"""The least that renders."""
STAGED: Document = {"stages": {"placement": "jobs", "convert": {"skip": True}}}
"""Stages in pods of their own."""


class Refused(Exception):
    """Helm refused the values; the text is what a user sees."""


def stubbed(folder: Path) -> Path:
    """Copy the chart to a folder, with a stub in place of the launcher's archive."""
    shutil.copytree(CHART, folder)
    for place in archive.PLACES:
        (folder / place).write_bytes(b"stub")
    return folder


def find(name: str) -> str | None:
    """Return the path of ``helm`` or ``helm3``: from the environment, .tools, or PATH."""
    folder = {"helm": "bin", "helm3": "helm3"}[name]
    built = ROOT / ".tools" / folder / "helm"
    given = os.environ.get(name.upper())
    return given or (str(built) if built.exists() else shutil.which(name))


def require(name: str) -> str:
    """Return the path of Helm; skip the test where the second version is absent."""
    path = find(name)
    if path is None and name == "helm":
        raise FileNotFoundError("no helm: run `make setup`, or set HELM to its path")
    if path is None:
        pytest.skip("no Helm 3: run `make setup`, or set HELM3 to its path")
    return path


def template(
    values: Mapping[str, Any] | str,
    *flags: str,
    name: str = "run",
    helm: str | None = None,
    chart: Path = CHART,
    is_cached: bool = True,
) -> str:
    """Render the chart, with more flags of ``helm template``.

    By the renderer as far as it can, or by ``helm``; ``is_cached``: the chart does not change.
    """
    given = values if isinstance(values, str) else json.dumps(values)
    act = _template if is_cached else _template.__wrapped__
    refused, text = act(given, name, helm, str(chart), flags, (), ())
    if refused:
        raise Refused(text)
    return text


def rejected(values: Mapping[str, Any], **options: Any) -> str:
    """Return what a user sees of values that Helm must refuse; options as of ``template``."""
    with pytest.raises(Refused) as refused:
        template(values, **options)
    return str(refused.value)


def call_of_release(
    release: scripts.helm.Release, chart: Path, *more: str, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Do what ``scripts.helm`` calls Helm for, by the renderer as far as it can."""
    if not is_known(release.name) or release.helm != Path(require("helm")):
        return CALL(release, chart, *more, given=given)
    values, *over = [given] if given else [f.read_text("utf-8") for f in release.files] or [""]
    sets = () if given else tuple(release.sets)
    flags = tuple({*more} & {SKIP})
    refused, text = _template(values, release.name, None, str(chart), flags, tuple(over), sets)
    out, err = ("", text) if refused else (text, "")
    return subprocess.CompletedProcess([], int(refused), out, err)


def is_known(name: str, flags: Collection[str] = ()) -> bool:
    return not name.startswith("-") and {*flags} <= {UPGRADE, SKIP} and running() is not None


@lru_cache(maxsize=512)
def _template(
    values: str,
    name: str,
    helm: str | None,
    chart: str,
    flags: tuple[str, ...],
    over: tuple[str, ...],
    sets: tuple[str, ...],
) -> tuple[bool, str]:
    if helm is None and is_known(name, flags) and (own := running()):
        options = {"is_upgrade": UPGRADE in flags, "skip_schema": SKIP in flags}
        answer = own.ask(values, Path(chart), name, over=over, sets=sets, **options)
        assert not answer.broken, answer.broken
        return (True, answer.stderr) if answer.refusal else (False, answer.text)
    program = require(helm or "helm")
    command = [program, "template", name, chart, "--kube-version", KUBERNETES, "--values", "-"]
    done = subprocess.run(
        [*command, *flags], input=values, capture_output=True, text=True, timeout=60
    )
    return (True, done.stderr) if done.returncode else (False, done.stdout)


@cache
def running() -> renderer.Renderer | None:
    """Start this process's renderer; None if it is not built, or Helm has another version."""
    modules = (ROOT / "tests" / "e2e" / "tools" / "renderer" / "go.mod").read_text(encoding="utf-8")
    version = call("version", "--template", "{{.Version}}").stdout
    if not renderer.PROGRAM.exists() or f"helm.sh/helm/v4 {version}\n" not in modules:
        return None
    own = renderer.Renderer(KUBERNETES)
    atexit.register(own.close)
    return own


def layers(file: Path) -> list[str]:
    """Return the ``-f`` arguments of a file of values/: it may be laid over others.

    Its first comment shows the command: ``-f values/a100-2node.yaml -f values/e2e.yaml``.
    """
    comment = file.read_text(encoding="utf-8").partition("\n\n")[0]
    names = re.findall(r"-f (values/\S+\.yaml)", comment)
    paths = [ROOT / name for name in names] or [file]
    return [word for path in paths for word in ("-f", str(path))]


def template_file(
    file: Path, *, name: str = "", helm: str | None = None, chart: Path = CHART
) -> list[Document]:
    """Render the text of a values file, since YAML parsers differ (5e-6)."""
    return objects(text_of(file, name or file.stem, helm, chart))


def text_of(file: Path, name: str = "run", helm: str | None = None, chart: Path = CHART) -> str:
    if helm or not is_known(name):
        words = [name, str(chart), *layers(file), "--kube-version", KUBERNETES]
        done = call("template", *words, helm=helm or "helm")
        refused, text = done.returncode != 0, done.stderr if done.returncode else done.stdout
    else:
        first, *over = [Path(word).read_text("utf-8") for word in layers(file) if word != "-f"]
        refused, text = _template(first, name, None, str(chart), (), tuple(over), ())
    if refused:
        raise Refused(text)
    return text


def notes(*layers: Mapping[str, Any]) -> str:
    """Return what ``helm install`` prints after the objects of ``BASE`` with layers over it."""
    values = merged(*layers)
    if (own := running()) and (found := own.ask(values, CHART).notes):
        return found
    words = [require("helm"), "install", "run", str(CHART), "--dry-run=client", "--values", "-"]
    given = json.dumps(values)
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:\n")[2]


def call(*arguments: str, helm: str = "helm") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [require(helm), *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT
    )


def objects(text: str) -> list[Document]:
    """Parse a rendered stream, in the order of kind and name."""
    found = [document for document in yaml.load_all(text, LOADER) if document]
    return sorted(found, key=lambda o: (o["kind"], o["metadata"]["name"]))


def render(
    *layers: Mapping[str, Any], name: str = "run", helm: str | None = None
) -> list[Document]:
    """Render ``BASE`` with layers over it, each as one more values file."""
    return objects(template(merged(*layers), name=name, helm=helm))


def merged(*layers: Mapping[str, Any]) -> Document:
    """Lay values over ``BASE`` as Helm does: maps merge, the rest is replaced."""
    result = copy.deepcopy(BASE)
    for layer in layers:
        _lay(result, layer)
    return result


def _lay(below: Document, above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, Mapping) and isinstance(below.get(key), dict):
            _lay(below[key], value)
        else:
            below[key] = copy.deepcopy(value)


def launcher(documents: list[Document]) -> dict[str, bytes]:
    """Return the archives of the launcher that the ConfigMaps hold, by name."""
    held = [each.get("binaryData", {}) for each in documents if each["kind"] == "ConfigMap"]
    return {name: base64.b64decode(data) for files in held for name, data in files.items()}


def runs(command: list[str]) -> str:
    """Return the launcher's command that a container's command line ends in."""
    script = command[2]
    assert command[:2] == ["python3", "-c"] and script.splitlines()[-1].startswith("os.execv(")
    [word] = command[3:]
    return word


def kind(documents: list[Document], wanted: str) -> Document:
    """Return the one object of a kind; of the ConfigMaps the one with the recipe."""
    found = [document for document in documents if document["kind"] == wanted]
    if wanted == "ConfigMap":
        found = [each for each in found if not each["metadata"]["name"].endswith("-training")]
    [one] = found
    return one


def jobs(documents: list[Document]) -> dict[str, Document]:
    replicated = kind(documents, "JobSet")["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"] for job in replicated}


def pod(documents: list[Document], role: str = "node") -> Document:
    spec: Document = jobs(documents)[role]["template"]["spec"]
    return spec


def specs(documents: list[Document]) -> dict[str, Document]:
    """Return the pods' specs by role: the gang's, those of ``STAGED``, and that of helm test."""
    roles = {role: pod(documents, role) for role in ("clone", "download", "node")}
    return roles | {"test": kind(documents, "Pod")["spec"]}


def env(documents: list[Document], role: str = "node") -> dict[str, Any]:
    """Return the environment of the launcher's container: text, or ``valueFrom``."""
    entries = pod(documents, role)["containers"][0]["env"]
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in entries}


def settings(documents: list[Document]) -> dict[str, str]:
    """Return the variables of that container that have a text."""
    return {name: value for name, value in env(documents).items() if isinstance(value, str)}


def recipe(documents: list[Document]) -> Document:
    """Return what the launcher reads as recipe.yaml."""
    parsed: Document = yaml.safe_load(kind(documents, "ConfigMap")["data"]["recipe.yaml"])
    return parsed


def walk(node: object, path: str = "") -> Iterator[tuple[str, object]]:
    yield path, node
    if isinstance(node, dict):
        for key, value in node.items():
            yield from walk(value, f"{path}.{key}".lstrip("."))
    elif isinstance(node, list):
        for position, value in enumerate(node):
            yield from walk(value, f"{path}[{position}]")
