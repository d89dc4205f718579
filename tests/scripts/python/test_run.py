"""`from megatron_dpo import Run`: the verbs' own documents, as typed objects, and the notebook."""

import dataclasses
import json
from pathlib import Path

import pytest

from megatron_dpo import Problem, Run
from megatron_dpo.documents import Document
from scripts.doctor.api import Api
from scripts.helm import ROOT
from tests.scripts.calling import Call
from tests.scripts.observe.server import Cluster
from tests.scripts.plan.values import A100

NOTEBOOK = ROOT / "megatron_dpo" / "example.ipynb"


def test_a_plan_is_the_document_of_the_command_and_does_not_change(call: Call) -> None:
    found = Run("dpo-42", files=[A100]).plan(gpu="a100-80g", pairs=40_000)
    words = ["plan", "-f", str(A100), "--run", "dpo-42", "--gpu", "a100-80g", "--pairs", "40000"]
    assert found.document == call(*words, "--json").document
    assert found.accepted and found.plan and found.plan["gang"]["nodes"] == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.accepted = False  # type: ignore[misc]


def test_a_refused_plan_is_an_answer_with_its_fixes() -> None:
    found = Run("dpo", files=[A100], sets={"recipe.args.save_interval": 5}).plan()
    assert not found.accepted and found.submission is None
    [fix] = found.fixes
    assert (fix.id, fix.sure, fix.choices[0][0].act) == ("flag-renamed", True, "move")


def test_a_fix_is_written_if_it_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    text = A100.read_text(encoding="utf-8")
    file.write_text(text.replace("\nnodes: 2", '\nnodes: "2"'), encoding="utf-8")
    shown = Run("dpo", files=file).fix()
    assert [each.id for each in shown.applied] == ["value-quoted"] and not shown.files
    assert file.read_text(encoding="utf-8") != text
    done = Run("dpo", files=[file]).fix(write=True)
    assert done.accepted and done.files == (str(file),)
    assert file.read_text(encoding="utf-8") == text


@pytest.mark.usefixtures("api")
@pytest.mark.parametrize("verb", ["status", "why"])
def test_a_run_is_seen_as_by_the_command(verb: str, call: Call) -> None:
    found: Document = getattr(Run("dpo", source="api"), verb)()
    said = call(verb, "dpo", "--source", "api", "--json").document
    assert found.document.keys() == said.keys()
    assert found.document["state"] == said["state"]


def test_lines_have_their_rank(cluster: Cluster, api: Api) -> None:
    name = next(each.rsplit("/", 1)[1] for each in cluster.objects if "/pods/" in each)
    cluster.logs[name] = b"2026-11-18T10:00:00Z one\n2026-11-18T10:00:01Z two\n"
    lines = Run("dpo", source="api").logs(tail=1)
    assert [(each.rank, each.line.split()[-1]) for each in lines] == [(0, "two")]


def test_a_run_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(Problem):
        Run("none", workspace=tmp_path, source="mount").report()


def test_rows_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}]
    file.write_text(json.dumps({"messages": turns, "rejected_response": "bad"}) + "\n")
    found = Run("dpo").data(file)
    assert found.refused == () and found.pairs == 1 and found.unit == "characters"


def test_the_notebook_has_no_results_of_a_machine() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
