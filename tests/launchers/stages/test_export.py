import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from launchers.config.recipe import Recipe
from launchers.config.workspace import Workspace
from launchers.evaluation import evaluations
from launchers.evaluation.evaluations import Evaluation
from launchers.exits import Exit, LaunchError
from launchers.metrics import rows, writer
from launchers.metrics.rows import Row
from launchers.stages.export import export, is_exported, link_or_copy, serve_command
from launchers.storage import marker
from launchers.storage.checkpoint import merged, seal
from tests.launchers.stages.checkpoints import sealed

INPUTS = {"recipe": "d1", "download m": "d2", "flags": ("a", "b")}
"""JSON has no tuples: inputs compare as they read back."""
LAST = Recipe(backend="megatron", task="rlhf", model="m", dataset=("d",), args={})
BEST = dataclasses.replace(LAST, export="best")
KEPT = ("config.json", "model-00001-of-00001.safetensors", "tokenizer.json", "chat_template.jinja")
RANDOM = "rng_state_0.pth"
LEFT_OUT = ("features.json", "optimizer.pt", "trainer_state.json", RANDOM, "training_args.bin")


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    """Return a run with one complete checkpoint of Megatron."""
    work = Workspace(root=tmp_path, run="r")
    sealed(work, 7, {name: name for name in (*KEPT, *LEFT_OUT, "iter_0000007/__0_0.distcp")})
    return work


def test_the_export_is_the_checkpoint_without_the_trainers_state(work: Workspace) -> None:
    assert export(work, LAST, INPUTS, holder="pod").state == "done"
    there = {p.name for p in work.export.iterdir()}
    assert there == {*KEPT, "statement.json", ".complete.json"}


ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
WHOLE = ("config.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json")


def adapted(root: Path) -> Workspace:
    """Return a run whose last checkpoint is an adapter and the model it was merged into."""
    work = Workspace(root=root, run="r")
    folder = work.checkpoints / "checkpoint-7"
    for into, names in ((merged(folder), WHOLE), (folder, (*ADAPTER, "args.json"))):
        into.mkdir(parents=True)
        for name in names:
            (into / name).write_text("{}" if name == "args.json" else f"{into.name} {name}")
        seal(into, 7)
    return work


def exported(work: Workspace) -> dict[str, str]:
    """Return the files of the export but its marker and its statement."""
    export(work, LAST, INPUTS, holder="pod")
    own = (".complete.json", "statement.json")
    files = (p for p in work.export.rglob("*") if p.is_file() and p.name not in own)
    return {str(p.relative_to(work.export)): p.read_text() for p in files}


def test_the_export_of_a_merged_adapter_is_the_model_and_the_adapter(tmp_path: Path) -> None:
    assert exported(adapted(tmp_path)) == {
        **{name: f"checkpoint-7-merged {name}" for name in WHOLE},
        **{f"adapter/{name}": f"checkpoint-7 {name}" for name in ADAPTER},
    }


def test_an_adapter_that_was_not_merged_is_exported_alone(tmp_path: Path) -> None:
    work = adapted(tmp_path)
    shutil.rmtree(merged(work.checkpoints / "checkpoint-7"))
    assert set(exported(work)) == {*ADAPTER, "args.json"}


def test_a_damaged_merged_model_is_not_passed_over(tmp_path: Path) -> None:
    work = adapted(tmp_path)
    (merged(work.checkpoints / "checkpoint-7") / WHOLE[1]).unlink()
    with pytest.raises(LaunchError, match="checkpoint-7-merged") as damaged:
        export(work, LAST, INPUTS, holder="pod")
    reported = damaged.value
    assert (reported.code, reported.id) == (Exit.INPUT_MISSING, "export-merged-incomplete")
    assert not work.export.exists()


def test_the_export_names_no_plugin_of_the_launcher(work: Workspace) -> None:
    folder, own = work.checkpoints / "checkpoint-7", "/opt/launchers/training/swift_plugin.py"
    arguments = {"lr": 1e-4, "callbacks": ["seal", "mine", "metrics"]}
    arguments |= {"external_plugins": [own, "/w/code/plugins/pairs.py"]}
    (folder / "args.json").write_text(json.dumps(arguments))
    seal(folder, 7)
    export(work, LAST, INPUTS, holder="pod")
    theirs = {"callbacks": ["mine"], "external_plugins": ["/w/code/plugins/pairs.py"]}
    assert json.loads((work.export / "args.json").read_text()) == {"lr": 1e-4, **theirs}
    assert json.loads((folder / "args.json").read_text()) == arguments


def test_only_the_same_inputs_make_the_run_ended(work: Workspace) -> None:
    assert not is_exported(work, LAST, INPUTS)
    export(work, LAST, INPUTS, holder="pod")
    assert is_exported(work, LAST, INPUTS)
    assert not is_exported(work, LAST, INPUTS | {"recipe": "d9"})


@pytest.mark.parametrize(
    ("content", "id"), [("", "file-torn"), ("{", "file-torn"), (None, "output-foreign")]
)
def test_an_export_that_is_not_known_to_be_the_runs_is_known_before_training(
    work: Workspace, content: str | None, id: str
) -> None:
    export(work, LAST, INPUTS, holder="pod")
    (work.export / marker.NAME).unlink()
    if content is not None:
        (work.export / marker.NAME).write_text(content)
    with pytest.raises(LaunchError) as refused:
        is_exported(work, LAST, INPUTS)
    assert refused.value.id == id and (work.export / KEPT[1]).exists()


def test_training_that_left_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no complete checkpoint") as missing:
        export(Workspace(root=tmp_path, run="r"), LAST, INPUTS, holder="pod")
    assert missing.value.code == Exit.INPUT_MISSING


def test_files_are_copied_where_links_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_text("x")
    link_or_copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "x"


def test_a_checkpoint_without_safetensors_is_not_exported(tmp_path: Path) -> None:
    work = Workspace(root=tmp_path, run="r")
    sealed(work, 7, {"config.json": "{}"})
    with pytest.raises(LaunchError, match="checkpoint-7 has no safetensors") as missing:
        export(work, LAST, INPUTS, holder="pod")
    assert missing.value.code == Exit.INPUT_MISSING
    assert not work.export.exists()


@pytest.mark.parametrize("damage", ["remove", "truncate", "content"])
def test_a_damaged_export_is_made_again(work: Workspace, damage: str) -> None:
    export(work, LAST, INPUTS, holder="pod")
    weights = work.export / KEPT[1]
    before = weights.read_bytes()
    weights.unlink()  # the checkpoint's is the same file: leave that one whole
    if damage != "remove":
        weights.write_bytes(b"" if damage == "truncate" else before[::-1])
    assert not is_exported(work, LAST, INPUTS)
    assert export(work, LAST, INPUTS, holder="pod").state == "done"
    assert weights.read_bytes() == before
    assert is_exported(work, LAST, INPUTS)
    kept = [path.read_bytes() for path in work.home.glob(f"export.kept-*/{KEPT[1]}")]
    assert kept == ([before[::-1]] if damage == "content" else [])


def test_changed_weights_are_left_where_only_an_earlier_checkpoint_could_replace_them(
    work: Workspace,
) -> None:
    export(work, LAST, INPUTS, holder="pod")
    (work.export / KEPT[1]).unlink()
    (work.export / KEPT[1]).write_bytes(b"quantised")
    row = Row(step=99, total=99, attempt=1, time=1.0, seconds=2.0, values={})
    work.metrics.write_text(f"{rows.line(row)}\n")
    assert is_exported(work, LAST, INPUTS)


def evaluated(work: Workspace, losses: dict[int, float], saved: tuple[int, ...]) -> None:
    for step, loss in losses.items():
        values = {"loss": loss, "rewards/accuracies": 1 - loss / 2}
        one = Evaluation(step=step, total=9, attempt=1, time=0.0, seconds=1.0, values=values)
        writer.append(work.metrics, evaluations.line(one))
    for step in saved:
        sealed(work, step, {"model.safetensors": str(step)})


@pytest.mark.parametrize("args", [{}, {"metric_for_best_model": "rewards/accuracies"}])
def test_the_best_checkpoint_is_the_one_whose_evaluation_is_best(
    tmp_path: Path, args: dict[str, str]
) -> None:
    work = Workspace(root=tmp_path, run="r")
    # 5 was not saved; 2 is worse, 8 the last
    evaluated(work, {0: 0.1, 2: 0.6, 4: 0.3, 5: 0.2, 8: 0.5}, saved=(2, 4, 8))
    recipe = dataclasses.replace(BEST, args=dict(args))
    export(work, recipe, INPUTS, holder="pod")
    assert (work.export / "model.safetensors").read_text() == "4"
    assert is_exported(work, recipe, INPUTS)
    assert not is_exported(work, LAST, INPUTS)  # a run may export again, without training again
    export(work, LAST, INPUTS, holder="pod")
    assert (work.export / "model.safetensors").read_text() == "8"


def test_without_an_evaluated_checkpoint_there_is_no_best(tmp_path: Path) -> None:
    work = Workspace(root=tmp_path, run="r")
    evaluated(work, {0: 0.7, 5: 0.2}, saved=(8,))
    with pytest.raises(LaunchError, match=r"no checkpoint \(steps 8\)") as missing:
        export(work, BEST, INPUTS, holder="pod")
    assert (missing.value.code, missing.value.id) == (Exit.INPUT_MISSING, "export-not-evaluated")


def test_vllm_serves_the_whole_model_under_the_runs_name(work: Workspace) -> None:
    export(work, LAST, INPUTS, holder="pod")
    wanted = ["vllm", "serve", str(work.export), "--served-model-name", "r"]
    assert serve_command(work, Path("/m"), 8) == [*wanted, "--tensor-parallel-size", "8"]


def test_vllm_serves_an_adapter_on_the_original_model(tmp_path: Path) -> None:
    work = Workspace(root=tmp_path, run="r")
    work.export.mkdir(parents=True)
    (work.export / "adapter_config.json").write_text(json.dumps({"r": 128}))
    wanted = ["vllm", "serve", "/m", "--enable-lora", "--lora-modules", f"r={work.export}"]
    wanted += ["--max-lora-rank", "128", "--tensor-parallel-size", "4"]
    assert serve_command(work, Path("/m"), 4) == wanted


@pytest.mark.parametrize("left", ["checkpoints", "nothing"])
def test_an_export_that_a_user_has_edited_is_left(
    work: Workspace, left: str, caplog: pytest.LogCaptureFixture
) -> None:
    export(work, LAST, INPUTS, holder="pod")
    (work.export / "config.json").unlink(missing_ok=True)
    (work.export / "config.json").write_text('{"edited": true}')
    if left == "nothing":
        shutil.rmtree(work.checkpoints)
    assert is_exported(work, LAST, INPUTS)
    assert "export-edited" in caplog.text
    assert "edited" in (work.export / "config.json").read_text()
