import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchers.config.rank import Place
from launchers.config.recipe import Backend, parse
from launchers.exits import Exit, LaunchError
from launchers.flags import code_files, external_plugins, features
from launchers.flags.command_line import environment, flatten, program, torchrun, tracker_keys
from tests.launchers.flags.commands import flags, names, saved
from tests.launchers.recipes import FIELDS
from tests.launchers.recipes import plain as recipe

PLACE = Place(rank=1, nodes=2, master_addr="h0", master_port=29500, source="JobSet")


def test_torchrun_is_static_and_never_restarts() -> None:
    words = torchrun(PLACE, nproc=8, log_dir=Path("/l"), python="py", program=["x.py", "--lr", "1"])
    text = " ".join(words)
    begin = "py -m torch.distributed.run --nnodes 2 --nproc-per-node 8 --node-rank 1"
    assert text.startswith(begin) and "--max-restarts 0" in text
    assert "rdzv" not in text
    assert words[-3:] == ["x.py", "--lr", "1"]


@pytest.mark.parametrize(
    ("backend", "task", "file"),
    [("megatron", "rlhf", "cli/_megatron/rlhf.py"), ("transformers", "sft", "cli/sft.py")],
)
def test_the_program_is_ms_swifts_file_not_its_wrapper(backend: str, task: str, file: str) -> None:
    assert program(recipe(backend, task), Path("/s")) == Path("/s") / file


def test_the_recipe_overrides_defaults_but_not_the_launchers_own() -> None:
    of = recipe(ddp_timeout=60, add_version=True)
    assert flags(of)["ddp_timeout"] == "60"
    assert flags(of)["add_version"] == "false"
    assert flags(recipe())["ddp_timeout"] == "7200"


def test_the_users_plugins_and_callbacks_join_the_launchers() -> None:
    of = recipe(external_plugins=["data.py"], callbacks=["mine"])
    merged = flags(of)
    assert merged["external_plugins"] == [str(external_plugins.PLUGIN), "/w/code/data.py"]
    called = "phases seal metrics first_step ledger nonfinite probe mine"
    assert merged["callbacks"] == called.split()
    loaded = """
    startup_megatron heartbeat background_save safetensors_last seal_megatron metrics_megatron
    first_step_megatron ledger_megatron nonfinite_megatron zero_gradient probe stop_megatron
    one_read device_read shard_writes early_plots checked_read engine_calls fused_norm grad_check
    grouped_product expert_order moved_rows
    pack_lengths tokens counted_head filler_mask
    """
    assert names(of) == loaded.split()
    reported = features.environment(recipe("transformers", streaming=True), on_cpu=False)
    assert reported == {
        "DPO_FEATURES": "startup_transformers,heartbeat,seal_transformers,metrics_transformers,"
        "epoch_order,partial_window,first_step_transformers,nonfinite_transformers,"
        "zero_gradient,stop_transformers,tokens",
        "DPO_SAVE_SECONDS": "900.0",
        "DPO_MAX_DROPPED_ROWS": "0.05",
        "DPO_EXPORTED": "last",
        "DPO_CACHE_TOKENS": "0",
    }


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_saves_by_time_unless_the_recipe_has_steps(backend: Backend) -> None:
    free = recipe(backend, eval_steps=7)
    assert free.saves_by_time
    merged = flags(free)
    assert (merged["save_total_limit"], merged["eval_steps"]) == ("2", "7")
    assert int(str(merged["save_steps"])) > 1e6
    assert flags(recipe(backend, save_total_limit=5))["save_total_limit"] == "5"
    for given in (
        recipe(backend, save_steps=100),
        recipe(backend, save_strategy="epoch"),
        replace(free, export="best"),
        replace(free, save_minutes=0.0),
    ):
        assert not given.saves_by_time and not {"save_total_limit"} & set(flags(given))
        assert features.environment(given, on_cpu=False)[features.SAVE_VARIABLE] == "0"


KEPT = ("/abs/val.jsonl#5", "my-pairs#20", "org/v1.json-pairs")


@pytest.mark.parametrize(
    ("flag", "given", "resolved"),
    [
        ("custom_register_path", ["reg.py", "/abs/reg.py"], ["/w/code/reg.py", "/abs/reg.py"]),
        ("custom_dataset_info", "info.json", "/w/code/info.json"),
        ("deepspeed", "ds_config_zero2.json", "/w/code/ds_config_zero2.json"),
        ("deepspeed", "conf/zero2", "/w/code/conf/zero2"),
        ("deepspeed", "/abs/ds.json", "/abs/ds.json"),
        ("deepspeed", "zero3_offload", "zero3_offload"),
        ("deepspeed", '{"zero_optimization": {"stage": 2}}', '{"zero_optimization": {"stage": 2}}'),
        ("deepspeed", {"zero_optimization": {"stage": 2}}, {"zero_optimization": {"stage": 2}}),
        ("fsdp", "fsdp2", "fsdp2"),
        ("fsdp", "conf/fsdp.json", "/w/code/conf/fsdp.json"),
        ("fsdp_config", "fsdp.json", "/w/code/fsdp.json"),
        ("accelerator_config", "conf/accelerate.json", "/w/code/conf/accelerate.json"),
        ("accelerator_config", '{"even_batches": false}', '{"even_batches": false}'),
        ("val_dataset", "data/val.jsonl", "/w/code/data/val.jsonl"),
        ("val_dataset", ["data/val.csv#500", *KEPT], ["/w/code/data/val.csv#500", *KEPT]),
        ("columns", "conf/columns.json", "/w/code/conf/columns.json"),
        ("columns", '{"text": "a/b"}', '{"text": "a/b"}'),
        ("device_map", "auto", "auto"),
        ("system", "prompts/system.txt", "/w/code/prompts/system.txt"),
        ("system", "Answer with and/or.", "Answer with and/or."),
        ("system", "Two lines:\nsee a.txt", "Two lines:\nsee a.txt"),
        ("new_special_tokens", ["<a>", "tokens.txt"], ["<a>", "/w/code/tokens.txt"]),
    ],
)
def test_files_of_the_training_code_are_found_in_the_clone(
    flag: str, given: Any, resolved: Any
) -> None:
    assert flags(recipe("transformers", **{flag: given}))[flag] == resolved


@pytest.mark.parametrize(
    "flag", ["custom_register_path", "custom_dataset_info", "columns", "accelerator_config"]
)
def test_a_relative_file_without_a_clone_is_refused(flag: str) -> None:
    says = rf"recipe\.args\.{flag}: 'x\.json' is a relative path"
    with pytest.raises(LaunchError, match=says) as refusal:
        code_files.resolved({flag: "x.json"}, None)
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, "plugin-no-clone")


def test_a_plugin_with_the_name_of_ours_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"external_plugins: swift_plugin\.py") as refusal:
        flags(recipe(external_plugins=["plugins/swift_plugin.py"]))
    assert refusal.value.remedy.startswith("rename yours")
    with pytest.raises(LaunchError, match=r"custom_register_path: swift_plugin\.py"):
        flags(recipe(custom_register_path="plugins/swift_plugin.py"))


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
@pytest.mark.parametrize("aware", [True, "no"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_the_step_of_an_optimizer_with_narrow_moments_is_cut(
    backend: str, aware: bool | str, dtype: str
) -> None:
    of = recipe(backend, use_precision_aware_optimizer=aware, exp_avg_sq_dtype=dtype)
    wanted = backend == "megatron" and aware is True and dtype == "bf16"
    assert ("chunked_adam" in names(of)) == wanted


def test_a_reference_that_is_taken_once_is_still_named() -> None:
    once = replace(recipe(), reference="precomputed")
    assert "reference" in names(once)
    assert flags(once)["ref_model"] == flags(recipe())["ref_model"]
    assert "reference" not in names(recipe())


@pytest.mark.parametrize(
    ("backend", "args", "wanted"),
    [
        ("megatron", {}, ["tokens"]),
        ("megatron", {"packing": True}, ["tokens", "packing"]),
        ("megatron", {"packing": "1", "load_from_cache_file": "False"}, ["tokens", "packing"]),
        ("megatron", {"packing": True, "streaming": True}, ["tokens"]),
        ("transformers", {"packing": True}, ["tokens"]),
    ],
)
def test_rows_are_tokenised_once_and_packs_dealt_out(
    backend: str, args: dict[str, Any], wanted: list[str]
) -> None:
    given = names(recipe(backend, **args))
    assert [name for name in given if name in ("tokens", "packing")] == wanted


def test_cpu_runs_use_gloo() -> None:
    on_cpu = flags(recipe("transformers"), cpu=True)
    assert (on_cpu["use_cpu"], on_cpu["ddp_backend"]) == ("true", "gloo")
    assert "cpu_checkpoint" in features.names(recipe("transformers"), on_cpu=True)
    assert "cpu_checkpoint" not in names(recipe("transformers"))
    assert "use_cpu" not in flags(recipe("transformers"))


@pytest.mark.parametrize("spelling", [True, "True", "1", "yes"])
@pytest.mark.parametrize(
    ("backend", "flag"), [("megatron", "async_save"), ("transformers", "use_flash_ckpt")]
)
def test_saving_in_the_background_is_refused(backend: str, flag: str, spelling: str | bool) -> None:
    with pytest.raises(LaunchError, match=flag):
        flags(recipe(backend, "rlhf", **{flag: spelling}))
    assert flags(recipe(backend, "rlhf", **{flag: "False"}))[flag] == "False"


def test_every_word_of_a_flag_is_one_argument() -> None:
    assert flatten({"b": "x y", "a": ["1", "2"]}) == ["--a", "1", "2", "--b", "x y"]


def test_training_sees_no_secret_and_no_hub() -> None:
    given = {"HF_TOKEN": "hf_CANARY", "MODELSCOPE_API_TOKEN": "c", "PYTHONPATH": "/a", "KEPT": "1"}
    given |= {"PET_RDZV_BACKEND": "c10d", "TORCHELASTIC_RUN_ID": "none"}
    env = environment(given, PLACE, nproc=8, package=Path("/opt/launchers"))
    assert "hf_CANARY" not in env.values()
    assert "MODELSCOPE_API_TOKEN" not in env
    assert env["PYTHONPATH"] == "/opt:/a"
    assert (env["NNODES"], env["NODE_RANK"], env["NPROC_PER_NODE"]) == ("2", "1", "8")
    assert env["HF_HUB_OFFLINE"] == env["KEPT"] == "1"
    assert not {"PET_RDZV_BACKEND", "TORCHELASTIC_RUN_ID"} & env.keys()


SHOWN = """
import os, subprocess, sys
from pathlib import Path
from launchers.config.rank import Place
from launchers.flags.command_line import environment
place = Place(rank=0, nodes=1, master_addr="m", master_port=1, source="single")
package, without = Path("launchers"), {"WANDB_API_KEY"}
found = environment(os.environ, place, nproc=1, package=package, without=without)
read = "import os; print(open(f'/proc/{os.getppid()}/environ').read().replace(chr(0), ' '))"
subprocess.run([sys.executable, "-c", read], env=found, check=True)
print("kept:", os.environ["HF_TOKEN"], os.environ["DPO_WEBHOOK_URL"])
"""


def test_training_cannot_read_secrets_in_the_environment_of_the_launcher() -> None:
    secrets = {"HF_TOKEN": "CANARY1", "HUGGING_FACE_HUB_TOKEN": "CANARY2"}
    secrets |= {"MODELSCOPE_API_TOKEN": "CANARY3", "DPO_WEBHOOK_URL": "CANARY4"}
    given = {**os.environ, **secrets, "WANDB_API_KEY": "CANARY5", "SHOWN": "yes", "EMPTY": ""}
    words = [sys.executable, "-c", SHOWN]
    shown, kept = subprocess.check_output(words, env=given, text=True).split("kept:")
    assert "SHOWN=yes" in shown and "PATH=" in shown
    assert "CANARY" not in shown
    assert kept.split() == ["CANARY1", "CANARY4"]


def test_held_out_rows_are_evaluated_before_the_first_step_of_a_run_only(tmp_path: Path) -> None:
    split: dict[str, Any] = {"split_dataset_ratio": 0.01}
    assert flags(recipe("transformers", **split))["eval_on_start"] == "true"
    resumed = flags(recipe("transformers", **split), resume=saved(tmp_path, state=True))
    assert "eval_on_start" not in resumed
    stopped = saved(tmp_path / "stopped", state=True)
    (stopped.path / "features.json").write_text('{"owes_evaluation": true}')
    assert flags(recipe("transformers", **split), resume=stopped)["eval_on_start"] == "true"
    for args in ({}, {**split, "eval_strategy": "No"}, {**split, "streaming": True}):
        assert "eval_on_start" not in flags(recipe("transformers", **args))
    assert flags(recipe("transformers", **split, eval_on_start=False))["eval_on_start"] == "false"
    assert "eval_on_start" not in flags(recipe(**split))  # Megatron has no such flag
    assert "evaluation" in names(recipe(**split))
    assert "evaluation" in names(recipe(val_dataset="/data/held_out.jsonl"))
    for other in ({}, {"split_dataset_ratio": "0.0"}, {**split, "rlhf_type": "grpo"}):
        assert "evaluation" not in names(recipe(**other))


def test_trackers_are_added_to_what_the_recipe_reports_to() -> None:
    assert "report_to" not in flags(recipe())
    wandb = replace(recipe(), trackers=("wandb",))
    assert flags(wandb)["report_to"] == ["tensorboard", "wandb"]
    both = replace(recipe(report_to=["swanlab"]), trackers=("wandb",))
    assert flags(both)["report_to"] == ["swanlab", "wandb"]
    assert wandb.digest == recipe().digest  # a run may resume with another tracker


@pytest.mark.parametrize(("backend", "reports"), [("megatron", 1), ("transformers", 0)])
@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_node_that_reports_gets_the_trackers_key(
    backend: str, reports: int, rank: int
) -> None:
    place = Place(rank=rank, nodes=2, master_addr="m", master_port=1, source="JobSet")
    env = {"WANDB_API_KEY": "k", "SWANLAB_API_KEY": "of a plugin", "HF_TOKEN": "t"}
    of = replace(recipe(backend), trackers=("wandb",))
    found = environment(env, place, nproc=8, package=Path("/p"), without=tracker_keys(of, place))
    assert ("WANDB_API_KEY" not in found) == (rank != reports)
    assert "SWANLAB_API_KEY" in found and "HF_TOKEN" not in found


@pytest.mark.parametrize("given", ["wandb", ["mlflow"], [["wandb"]], {"wandb": True}])
def test_other_trackers_are_refused(given: object) -> None:
    with pytest.raises(LaunchError) as refused:
        parse({**FIELDS, "trackers": given})
    assert refused.value.id == "recipe-trackers"
