"""What Helm reads otherwise than it is written is refused, and nothing else."""

from pathlib import Path

import pytest

from scripts.helm import ROOT, template
from scripts.problem import Problem
from scripts.values import text

SOUND = (
    "a: {b: 1}\nc: {b: 2}\n",
    "a: '010'\nb: 0.1\nc: 0\nd: 0x10\n",
    "a: &x {b: 1}\nc: *x\n",
    "---\na: 1\n",
    "a: [\n",
    "",
    "a: say “b”\nb: '“c”'\n",
    "global: {storageClass: a}",
    "extraVolumes: [{secret: {secretName: a, defaultMode: 0440}}]\n",
)


@pytest.mark.parametrize("given", SOUND)
def test_what_helm_reads_as_it_is_written_is_accepted(given: str) -> None:
    assert text.mistakes(given, "x.yaml") == []


TWICE = "a.b: written twice, in lines 2 and 4 of x.yaml"


@pytest.mark.parametrize(
    ("given", "id", "begin"),
    [
        ("nodes: 010", "text-octal", ""),
        ("a: [{b: -007}]", "text-octal", ""),
        ("a: 1\nb:\n  c: 08\n", "text-octal", ""),
        ("a:\n  b: 1\n  c: 2\n  b: 3\n", "text-twice", TWICE),
        ("a: “b”", "text-quotes", ""),
        ("a: [‘b’]", "text-quotes", ""),
        ("a:\n  b: „c“", "text-quotes", ""),
        ("a: 1\n---\nb: 1\n", "text-documents", "x.yaml: "),
    ],
)
def test_what_helm_reads_otherwise_is_refused(given: str, id: str, begin: str) -> None:
    [line] = text.mistakes(given, "x.yaml")
    assert line.startswith(begin) and line.endswith(f"[{id}]")


def test_no_values_file_of_this_checkout_is_refused() -> None:
    folders = ("values", "values/hardware", "values/baselines", "chart/ci", "chart")
    files = [file for folder in folders for file in (ROOT / folder).glob("*.yaml")]
    assert len(files) > 15
    found = {str(f): text.mistakes(f.read_text(encoding="utf-8"), f.name) for f in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_they_are_said_together_with_what_the_chart_refuses(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("nodes: 2\nnodes: 3\nkueue: {queue: A_b}\n")
    with pytest.raises(Problem) as refused:
        template("run", [ROOT / "values" / "demo-cpu.yaml", file])
    ids = [line.rpartition(" ")[2] for line in str(refused.value).splitlines()[1:]]
    assert ids[:2] == ["[text-twice]", "[value-form]"]


def test_values_beyond_the_basic_plane_are_judged_like_others(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    given = 'nodes: two\nextraEnv: {A: "\U0001f60d\U00010000", "b c": x}\n'
    file.write_text(given, encoding="utf-8")
    with pytest.raises(Problem, match=r"\[env-name\]"):
        template("run", [ROOT / "values" / "demo-cpu.yaml", file])
