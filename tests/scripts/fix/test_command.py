"""`megatron-dpo plan --fix` as a person calls it, on the chart."""

from pathlib import Path

import pytest

from scripts.fix import command
from scripts.fix.change import Remedy
from scripts.fix.files import Files
from scripts.helm import ROOT
from scripts.plan.command import Request
from tests.scripts.calling import Call

VALUES = ROOT / "values"
WRONG = """\
# My run.
nodes: "2"  # hosts
gpusPerNode: 8
recipe:
  model: hf://org/model@main
  dataset: [hf://org/data@main]
  args:
    num_train_epochs: 1
    save_interval: 100  # steps
    loss_type: ipo
workspace: {existingClaim: shared}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "values.yaml"
    path.write_text(WRONG)
    return path


def test_a_refused_plan_has_the_changes_as_data(file: Path, call: Call) -> None:
    ended = call("plan", "-f", str(file), "--json")
    assert ended.code == 1
    by_id = {each["id"]: each for each in ended.document["fixes"]}
    choices = [[{"act": "set", "path": "nodes", "value": 2}]]
    quoted = {"id": "value-quoted", "path": "nodes", "sure": True, "choices": choices}
    assert by_id["value-quoted"] == quoted
    assert by_id["dpo-loss"]["sure"] is False
    assert file.read_text() == WRONG


def test_yes_corrects_the_form_and_leaves_the_loss_to_the_user(file: Path, call: Call) -> None:
    ended = call("plan", "-f", str(file), "--fix", "--yes", "--json")
    found = ended.document
    assert file.read_text() == WRONG.replace('"2"', "2").replace("save_interval", "save_steps")
    assert ended.code == 1 and found["files"] == [str(file)]
    assert [each["id"] for each in found["applied"]] == ["value-quoted", "flag-renamed"]
    assert [each["id"] for each in found["fixes"]] == ["dpo-loss"]
    assert '-nodes: "2"  # hosts' in found["difference"].splitlines()


def test_a_question_shows_the_difference_and_no_leaves_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("scripts.run_verbs.asking", lambda **_: no)
    monkeypatch.setattr("os.isatty", lambda _: False)
    ended = call("plan", "-f", str(file), "--fix")
    assert ended.code == 1 and file.read_text() == WRONG
    assert asked == ["Write these changes?"]
    assert "+nodes: 2  # hosts" in ended.out and "nothing was written" in ended.out


def test_without_a_terminal_nothing_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr("os.isatty", lambda _: False)
    ended = call("plan", "-f", str(file), "--fix")
    assert ended.code == 1 and "no confirmation is possible" in ended.err
    assert file.read_text() == WRONG


def test_a_choice_is_asked_and_its_answer_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr("os.isatty", lambda _: True)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: 1)
    monkeypatch.setattr("scripts.run_verbs.asking", lambda **_: lambda question: True)
    ended = call("plan", "-f", str(file), "--fix")
    assert ended.code == 0 and "1  set recipe.args.loss_type: sigmoid" in ended.out
    assert "loss_type: sigmoid" in file.read_text()


def test_a_remedy_that_is_no_longer_right_is_not_applied() -> None:
    """The refusal stays with it: an earlier version of a rule said otherwise."""
    files = Files(texts={Path("values.yaml"): "nodes: 2\n"})
    line = "nodes: 2 is odd; use 3 [x]"
    found = command.apply(files, lambda files: [line], lambda one: one.choices[0])
    assert found.after == files and found.applied == []
    assert [why for _, why in found.rejected] == [command.NOT_REMOVED]


def test_a_value_that_another_rule_refuses_is_not_applied() -> None:
    path = Path("values.yaml")
    files = Files(texts={path: "nodes: 2\n"})

    def plan(now: Files) -> list[str]:
        is_old = "2" in now.texts[path]
        return ["nodes: 2 is odd; use 3 [x]" if is_old else "nodes: 3 is too many; use 1 [y]"]

    found = command.apply(files, plan, lambda one: one.choices[0])
    assert found.after == files and "[y]" in found.rejected[0][1]


@pytest.mark.parametrize("content", [b"nodes: 4\n", b"\xff\xfe"])
def test_a_file_changed_during_the_question_is_kept(
    content: bytes, file: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def yes(question: str) -> bool:
        file.write_bytes(content)
        return True

    monkeypatch.setattr("os.isatty", lambda _: False)
    monkeypatch.setattr("scripts.run_verbs.asking", lambda **_: yes)
    ended = call("plan", "-f", str(file), "--fix")
    assert ended.code == 1
    assert "has changed since it was planned; nothing was written" in " ".join(ended.err.split())
    assert file.read_bytes() == content


def test_only_what_keeps_the_meaning_needs_no_answer(file: Path) -> None:
    seen: list[Remedy] = []
    command.fixed(Request(run="run", files=[file]), seen.append)
    wanted = {"value-quoted": True, "flag-renamed": True, "dpo-loss": False}
    assert {each.id: command.sure(each) is not None for each in seen} == wanted


def test_a_plan_that_does_not_fit_is_fixed_by_a_layout_that_it_proposes(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\ngpuHour: {a100-80g: 2.0}\nwatts: {a100-80g: 400}\n")
    monkeypatch.setenv("MEGATRON_DPO_PRICES", str(prices))
    file = tmp_path / "values.yaml"
    file.write_text((VALUES / "recipes/sft-2gpu.yaml").read_text().replace("#500", ""))
    words = ("plan", "-f", str(file), "--gpu", "a100-80g", "--tokens", "1500", "--json")
    ended = call(*words)
    found = ended.document
    assert ended.code == 1 and found["cost"] is None
    request = Request(run="dpo", files=[file], gpu="a100-80g", tokens=1500)
    fixed = command.fixed(request, lambda one: one.choices[0])
    [(one, choice)] = fixed.applied
    assert one.id == "plan-gpu-memory" and fixed.left == []
    assert [each.document() for each in choice] == found["fixes"][0]["choices"][0]
    fixed.after.write(fixed.before)
    ended = call(*words, "--pairs", "1000")
    assert ended.code == 0
    hours, cost = ended.document["plan"]["length"]["gpu_hours"], ended.document["cost"]
    assert cost["run"] == pytest.approx(2 * hours, rel=0.01) and cost["currency"] == "EUR"
    assert cost["kwh"] == pytest.approx(0.4 * hours, rel=0.01)
    assert cost["epoch"] == pytest.approx(cost["thousand_pairs"])
