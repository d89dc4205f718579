"""The workflows of public CI pass their linters, and run the targets of this repository."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.doctor.control_plane import OLDEST_KUBERNETES
from scripts.helm import ROOT
from tests.e2e.cluster.kind import config as kind_config
from tests.e2e.cluster.versions import required

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
BIN = Path(sys.executable).parent
ACTIONLINT = ROOT / ".tools" / "cluster" / "bin" / "actionlint"
PIN = re.compile(r"- (?:if: .*\n +)?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", re.MULTILINE)

Workflow = dict[str, Any]


def read(file: Path) -> Workflow:
    content: Workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


def jobs() -> list[tuple[str, Workflow]]:
    return [
        (f"{file.stem}.{name}", job) for file in FILES for name, job in read(file)["jobs"].items()
    ]


def combinations() -> list[dict[str, str]]:
    strategy = dict(jobs())["e2e.kind"]["strategy"]
    rows = strategy["matrix"]["include"]
    return [{key: str(value) for key, value in row.items()} for row in rows]


def actionlint(folder: Path) -> tuple[int, str]:
    if not ACTIONLINT.exists():
        pytest.skip("no .tools/cluster/bin/actionlint: `make test` builds it where Go is")
    argv = [str(ACTIONLINT), "-no-color", "-shellcheck", str(BIN / "shellcheck"), "-pyflakes="]
    done = subprocess.run([*argv, *folder.glob("*.yaml")], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def zizmor(folder: Path) -> tuple[int, str]:
    argv = [str(BIN / "zizmor"), "--offline", "--persona=auditor", "--strict-collection"]
    done = subprocess.run([*argv, *folder.glob("*.yaml")], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Return a folder with one of our workflows and common mistakes in it."""
    text = (ROOT / ".github" / "workflows" / "ci.yaml").read_text(encoding="utf-8")
    unpinned = re.sub(r"(actions/checkout)@\w+ # v.*", r"\1@v6", text)
    injected = unpinned.replace("make test", "make ${{ github.head_ref }} && echo $nobody")
    assert injected.count("@v6") == 2 and "nobody" in injected
    (tmp_path / "ci.yaml").write_text(injected, encoding="utf-8")
    return tmp_path


def test_actionlint_is_content() -> None:
    assert actionlint(ROOT / ".github" / "workflows") == (0, "")


def test_actionlint_finds_what_is_planted(broken: Path) -> None:
    code, output = actionlint(broken)
    assert code == 1
    assert "potentially untrusted" in output and "SC2086" in output


def test_zizmor_is_content() -> None:
    code, output = zizmor(ROOT / ".github" / "workflows")
    assert code == 0, output


def test_zizmor_finds_what_is_planted(broken: Path) -> None:
    code, output = zizmor(broken)
    assert code >= 10, output
    assert "unpinned-uses" in output and "template-injection" in output


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_action_is_pinned_and_says_its_version(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(PIN.findall(text)) == text.count("uses:") > 0


def test_an_action_has_the_same_pin_everywhere() -> None:
    pins = re.findall(r"uses: ([\w./-]+)@(.*)", "".join(f.read_text("utf-8") for f in FILES))
    assert len(set(pins)) == len({name for name, _ in pins})


def test_every_job_ends_and_only_a_release_writes() -> None:
    published = {"packages": "write", "id-token": "write", "attestations": "write"}
    writers = {
        "release.chart": {"contents": "read", **published},
        "release.launchers": {"contents": "read", **published},
        "release.image": {"contents": "read", **published},
        "release.github": {"contents": "write"},
    }
    for name, job in jobs():
        assert 0 < job["timeout-minutes"] <= 90, name
    assert {name: job["permissions"] for name, job in jobs() if "permissions" in job} == writers
    assert all(read(file)["permissions"] == {"contents": "read"} for file in FILES)
    tagged = [file.stem for file in FILES if "tags" in (read(file)["on"].get("push") or {})]
    assert tagged == ["release"]


def test_a_release_signs_by_digest_what_was_built_from_the_tag() -> None:
    release = {name: job for name, job in jobs() if name.startswith("release.")}
    commands = "\n".join(step.get("run", "") for job in release.values() for step in job["steps"])
    assert re.search(r'make release VERSION="\$\{GITHUB_REF_NAME#v\}" PUBLISH=1', commands)
    signed = re.findall(r'cosign (?:sign|attest) .*"\$(\w+)"$', commands, re.M)
    assert signed == ["CHART", "CHART", "LAUNCHERS", "IMAGE", "IMAGE"]
    values = [
        step["env"][name]
        for job in release.values()
        for step in job["steps"]
        for name in ("CHART", "LAUNCHERS", "IMAGE")
        if "cosign sign" in step.get("run", "") and name in step["env"]
    ]
    assert len(values) == 3 and all("@${{ steps.push.outputs.digest }}" in v for v in values)


def test_every_target_of_make_is_there() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.* ## ", (ROOT / "Makefile").read_text("utf-8"), re.M)
    commands = [step.get("run", "") for _, job in jobs() for step in job["steps"]]
    lists = re.findall(r"\bmake ([a-z0-9 -]+)", "\n".join(commands))
    called = {target for words in lists for target in words.split()}
    assert len(called) > 3
    assert called <= set(targets)


@pytest.mark.parametrize(
    "what, oldest, newest",
    [
        ("kubernetes", OLDEST_KUBERNETES, (1, 37)),
        ("jobset", (0, 10), (0, 12)),
        ("kueue", (0, 17), (0, 19)),
    ],
)
def test_the_matrix_has_every_minor_of(
    what: str, oldest: tuple[int, int], newest: tuple[int, int]
) -> None:
    minors = {tuple(map(int, row[what].split(".")[:2])) for row in combinations()}
    assert minors == {(oldest[0], minor) for minor in range(oldest[1], newest[1] + 1)}


def test_the_matrix_has_what_is_pinned_here_with_both_helms() -> None:
    pinned = kind_config.versions({})
    ours = {"kubernetes": pinned.kubernetes, "jobset": pinned.jobset, "kueue": pinned.kueue}
    helms = {row["helm"].split(".")[0] for row in combinations() if row.items() >= ours.items()}
    assert helms == {"v3", "v4"}


def test_a_node_image_is_known_for_each_combination() -> None:
    for row in combinations():
        environment = {f"E2E_{key.upper()}": value for key, value in row.items()}
        assert kind_config.versions(environment).kueue == row["kueue"]


def test_the_helms_are_those_that_are_built_here() -> None:
    script = (ROOT / "scripts" / "tools" / "helm.sh").read_text(encoding="utf-8")
    built = {f"v{version}" for version in re.findall(r"\bbuild [34] ([\d.]+) ", script)}
    assert {row["helm"] for row in combinations()} == built
    helm3 = (ROOT / "tests" / "e2e" / "tools" / "renderer" / "go.mod").read_text(encoding="utf-8")
    assert required(helm3, "helm.sh/helm/v3") in built
    assert set(dict(jobs())["ci.chart"]["strategy"]["matrix"]["helm"]) == built
