"""`megatron-dpo plan` as a person calls it."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.config.settings import from_env
from launchers.inputs.paths import inputs_of
from launchers.run import plan_file
from scripts import cli, terminal
from scripts.dev.figures.predicted import predictions, profiles
from scripts.helm import ROOT
from scripts.plan import command
from scripts.plan.inputs import known_models
from scripts.problem import Problem
from tests.chart.helm import layers
from tests.scripts.calling import Call
from tests.scripts.plan.values import A100, rendered, request

CONFIG = known_models()["Qwen3-30B-A3B"]


def screen(*words: str, columns: int = 80) -> tuple[int, str]:
    out, shown = io.StringIO(), terminal.Terminal
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "Terminal", lambda **how: shown(file=out, width=columns, **how))
        with pytest.raises(SystemExit) as end:
            cli.main(["plan", *words])
    return int(str(end.value.code or 0)), out.getvalue()


def fitting(*words: str) -> str:
    """Return the screen of an accepted plan, in which no column is cut."""
    code, text = screen(*words)
    assert code == 0, text
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    return text


def document(*words: str) -> tuple[int, dict[str, Any]]:
    code, text = screen(*words, "--json")
    found: dict[str, Any] = json.loads(text)
    return code, found


SHIPPED = ("-f", str(A100), "--gpu", "a100-80g", "--run", "dpo-42")
H200 = ("--gpu", "h200")


def test_the_shipped_values_fit_one_screen() -> None:
    text = fitting(*SHIPPED, "--pairs", "40000")
    assert len(text.splitlines()) <= 45
    for word in ("accepted", "queue gpu", "2 nodes x 8 a100-80g", "GPU-hours", "of 480 GiB host"):
        assert word in text
    assert "node 0 ranks 0-7  stage 0, layers 0-23" in text


def test_brackets_of_a_value_are_shown() -> None:
    text = fitting(*SHIPPED, "--set", "recipe.dataset={data/[/b][red].parquet}")
    assert "dataset data/[/b][red].parquet" in text


def test_the_document_says_the_same() -> None:
    code, found = document(*SHIPPED, "--pairs", "40000")
    assert (code, found["accepted"], found["refusals"]) == (0, True, [])
    assert found["submission"]["queue"] == "gpu"
    assert found["submission"]["pod"]["devices"]["rdma/hca_shared_devices_a"] == 1
    assert found["plan"]["unknown"] == {}
    assert found["plan"]["length"]["steps"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        # 8 x 5 GPUs hold five pipeline stages; 48 layers do not
        (("--set", "nodes=5", "--set", "recipe.args.pipeline_model_parallel_size=5"), "48 layers"),
        (("--nodes", "1"), "--nodes and --gpus-per-node belong to --search"),
    ],
    ids=["a rule that needs the model", "GPUs to search for without a search"],
)
def test_what_is_refused_is_said(words: tuple[str, ...], said: str) -> None:
    code, found = document(*SHIPPED, *words)
    assert (code, found["accepted"]) == (1, False)
    assert any(said in line for line in found["refusals"]), found["refusals"]
    code, text = screen(*SHIPPED, *words)
    assert code == 1 and ("refused" in text or said in text)


def test_what_cannot_fit_is_refused_and_the_nearest_that_fits_is_proposed() -> None:
    words = ("--set", "recipe.args.pipeline_model_parallel_size=1", "--gpu", "a100-40g")
    code, found = document(*SHIPPED, *words)
    assert (code, found["accepted"]) == (1, False)
    assert any("the fullest GPU needs" in line for line in found["refusals"])
    assert found["proposals"]
    for proposal in found["proposals"]:
        assert proposal["memory_gib"] <= 39.4 and proposal["changes"]
    times = [proposal["step_seconds"] for proposal in found["proposals"]]
    assert times == sorted(times)


def test_a_plan_with_room_names_the_fewest_recomputed_layers_that_fit() -> None:
    name = "recipe.args.recompute_num_layers"
    for own, fewer in ((48, True), (18, False)):  # 18: the file's own, with a reserve
        words = (*SHIPPED, "--set", f"{name}={own}")
        code, found = document(*words)
        assert code == 0 and bool(found["proposals"]) == fewer
        assert (f"{name}=16 fits" in screen(*words)[1]) == fewer
        if fewer:
            assert found["proposals"][0]["changes"] == {"recompute_num_layers": "16"}
            fits = replace(request(files=[A100]), sets=[f"{name}={own}"])
            assert command.layouts(fits) == []  # nothing to remedy
    [tight] = document(*SHIPPED, "--set", f"{name}=15")[1]["warnings"][:1]
    assert tight.startswith("memory is tight")


def test_a_proposal_that_is_written_into_the_values_is_accepted() -> None:
    words = (*SHIPPED, "--gpu", "a100-40g")
    _code, found = document(*words)
    for proposal in found["proposals"]:
        sets = [
            word
            for name, value in proposal["changes"].items()
            for word in ("--set", f"recipe.args.{name}={'null' if value is None else value}")
        ]
        code, again = document(*words, *sets)
        assert code == 0, again["refusals"]
        assert again["plan"]["memory"]["total_gib"] == proposal["memory_gib"]
        assert again["plan"]["speed"]["step_seconds"] == proposal["step_seconds"]


def test_an_unknown_model_still_shows_what_is_known(tmp_path: Path) -> None:
    words = (*SHIPPED, "--set", "recipe.model=hf://o/Nobody-7B@v1")
    code, text = screen(*words)
    assert code == 0
    assert "the sizes of Nobody-7B are not known: give --model-config config.json" in text
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    code, found = document(*words, "--model-config", str(config))
    assert (code, found["plan"]["model"]["layers"]) == (0, 48)


@pytest.mark.parametrize("file", sorted((ROOT / "values").glob("*.yaml")), ids=lambda f: f.stem)
def test_every_shipped_file_has_a_plan_of_80_columns(file: Path) -> None:
    fitting(*layers(file))


def test_the_seeds_own_layout_is_refused_by_nothing() -> None:
    seed = ROOT / "values" / "baselines" / "seed-2node.yaml"
    text = fitting("-f", str(A100), "-f", str(seed), "--pairs", "40000")
    assert ": accepted" in text and "TP 4  PP 2  CP 1  EP 8  ETP 1  DP 2" in text
    assert "evaluation: 9 times 396 of 400 held-out rows" in text


@pytest.mark.parametrize("file, gpu_model", [*profiles()])
def test_every_profile_fits_every_gpu_model_that_it_is_for(file: Path, gpu_model: str) -> None:
    [row] = [r for r in predictions() if (r.file, r.gpu_model) == (file, gpu_model)]
    fitting(*(word for file in row.files for word in ("-f", str(file))), "--gpu", row.gpu_model)
    assert row.plan.memory is not None and row.plan.speed is not None


def test_an_adapter_is_saved_so_often_that_a_cut_loses_little() -> None:
    plans = [row.plan for row in predictions()]
    adapters = [plan for plan in plans if plan.training and plan.training.tuner != "full"]
    assert adapters
    for plan in adapters:
        lost, files = plan.lost_seconds, plan.footprint
        assert lost is not None and 150 < lost < 600  # and saving takes 3 s of it
        assert files is not None and files.needed is not None and files.needed < 140e9


def test_the_launcher_writes_the_plan_that_the_command_shows(tmp_path: Path) -> None:
    found = rendered(run="dpo-42")
    env = {**found.env, "JOB_COMPLETION_INDEX": "0", "DPO_GPU_MODEL": "a100-80g"}
    settings = from_env({**env, "DPO_WORKSPACE": str(tmp_path)})
    inputs = inputs_of(settings, found.recipe)
    inputs.model.mkdir(parents=True)
    config = inputs.model / "config.json"
    config.write_text(json.dumps(CONFIG))
    plan_file.record(settings, found.recipe, inputs, env)
    written = json.loads(settings.launch.work.plan.read_text())
    _code, shown = document(*SHIPPED, "--model-config", str(config))
    assert written == shown["plan"]
    assert written["memory"] is not None and written["speed"] is not None


def test_an_environment_that_the_launcher_would_refuse_is_reported() -> None:
    found = rendered()
    env = {**found.env, "DPO_MASTER_PORT": "none"}
    with pytest.raises(Problem, match="DPO_MASTER_PORT"):
        command.job_of(replace(found, env=env), request())


def overlay(text: str, folder: Path) -> Path:
    """Return a file with the lines that a proposal recommends."""
    file = folder / "overlay.yaml"
    file.write_text(text.partition("for the first write:\n")[2].partition("\nall layouts")[0])
    return file


@pytest.mark.parametrize("values", ["a100-2node", "hardware/80g-8", "hardware/h200-4"])
def test_what_a_search_of_other_gpus_proposes_is_a_values_file(values: str, tmp_path: Path) -> None:
    half = ("--set", "resources.limits.memory=320Gi")  # of a checkpoint passes each pod
    own = ("-f", str(A100), "-f", str(ROOT / "values" / f"{values}.yaml"), *half)
    where = ("--search", "--nodes", "2", "--gpus-per-node", "4", *H200)
    _, found = document(*own, *where)
    text = fitting(*own, *where)
    code, again = document(*own, "-f", str(overlay(text, tmp_path)))
    assert code == 0, again["refusals"]
    best, plan = found["layouts"][0], again["plan"]
    assert {name: plan["layout"][name] for name in best["layout"]} == best["layout"]
    assert plan["memory"]["total_gib"] == best["memory_gib"]
    assert plan["speed"]["step_seconds"] == best["step_seconds"]
    gang = (plan["gang"]["nodes"], plan["gang"]["gpus_per_node"], plan["gang"]["card"])
    assert gang == (2, 4, "h200")


@pytest.mark.parametrize("values", ["a100-2node", "hardware/h200-8", "hardware/h200-16"])
def test_no_column_of_a_search_is_cut(values: str) -> None:
    fitting("-f", str(A100), "-f", str(ROOT / "values" / f"{values}.yaml"), "--search")


def test_a_search_of_fewer_gpus_has_the_host_memory_that_their_pod_gets() -> None:
    words = (*SHIPPED, "--search", "--nodes", "1", "--gpus-per-node", "4", *H200)
    code, text = screen(*words)
    printed = " ".join(text.split())
    assert code == 1
    assert "none fits the 256 GiB of a pod's host memory, the least needs 2" in printed
    more = printed.partition("write --set ")[2].split()[0]
    code, found = document(*words, "--set", more)
    assert (code, found["gang"]) == (0, {"nodes": 1, "gpus_per_node": 4, "card": "h200"})
    experts = [int(each["changes"]["expert_model_parallel_size"]) for each in found["layouts"]]
    assert experts and max(experts) <= 4


def test_host_memory_is_judged_without_a_gpu_model() -> None:
    sets = ("--set", "gpuModel=", "--set", "resources.limits.memory=40Gi")
    code, found = document("-f", str(A100), *sets)
    assert code == 1
    assert any(line.startswith("resources.limits.memory:") for line in found["refusals"])


@pytest.mark.parametrize("search", [(), ("--search",)], ids=["plan", "search"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--gpu", "foo"), "--gpu foo is not known; write one of a100-40g"),
        (("--set", "recipe.args.tensor_model_parallel_size=3"), "tensor_model_parallel_size 3"),
        (("--set", "nodes=x"), 'nodes: "x" is a text, where a whole number'),
        (("-f", "absent.yaml"), "absent.yaml is not a file"),
    ],
)
def test_a_problem_is_a_document_on_stdout_where_json_is_asked_for(
    search: tuple[str, ...], words: tuple[str, str], expected: str, call: Call
) -> None:
    code, out, err = call("plan", "-f", str(A100), *words, *search, "--json")
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert (found["version"], found["accepted"]) == (1, False)
    assert any(expected in line for line in found["refusals"])
    assert not found["layouts" if search else "plan"]


def test_a_search_that_finds_nothing_says_why_in_its_document() -> None:
    code, found = document(*SHIPPED, "--search", "--nodes", "1", "--gpus-per-node", "1", *H200)
    assert (code, found["accepted"], found["layouts"]) == (1, False, [])
    assert len(found["refusals"]) == 1 and "none fits" in found["refusals"][0]
