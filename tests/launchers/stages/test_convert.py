import json
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.inputs.paths import conversion_skip_reason
from launchers.stages.convert import _failure, conversion_flags, expert_parallel
from tests.launchers.recipes import plain


def test_a_skip_has_its_reason() -> None:
    assert conversion_skip_reason(plain("megatron"), is_skipped=False) == ""
    skipped = conversion_skip_reason(plain("megatron"), is_skipped=True)
    assert skipped.startswith("SKIP_CONVERT=1")
    assert "backend transformers" in conversion_skip_reason(plain("transformers"), is_skipped=False)


def test_the_conversion_knows_what_the_recipe_says_of_the_model() -> None:
    flags = conversion_flags(plain("megatron", model_type="qwen3_moe", lr="1e-5"), Path("/m"))
    own = {"model": "/m", "to_mcore": "true", "exist_ok": "true"}
    assert flags == {"model_type": "qwen3_moe", "torch_dtype": "bfloat16", **own}


@pytest.mark.parametrize(
    ("config", "gpus", "spread"),
    [
        ({"num_experts": 128}, 8, 8),
        ({"num_local_experts": 60}, 8, 4),
        ({"n_routed_experts": 64}, 6, 2),
        ({"num_experts": None}, 8, 1),
        ({}, 8, 1),
        ({"num_experts": 8}, 0, 1),
    ],
)
def test_experts_spread_over_as_many_gpus_as_divide_them(
    tmp_path: Path, config: dict[str, int], gpus: int, spread: int
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert expert_parallel(tmp_path, gpus) == spread


def test_a_model_without_a_config_is_bad_data(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="config.json") as bad:
        expert_parallel(tmp_path, 8)
    assert bad.value.code == Exit.DATA


def test_a_failed_conversion_is_judged_by_its_ranks_not_by_torchrun(tmp_path: Path) -> None:
    ranks, log = tmp_path / "m.ranks", tmp_path / "m.log"
    stderr = ranks / "none_x" / "attempt_0" / "0" / "stderr.log"
    stderr.parent.mkdir(parents=True)
    stderr.write_text("Traceback\nOSError: [Errno 28] No space left on device\n")
    log.write_text(
        "[default0]:OSError: [Errno 28] No space left on device\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    error = _failure(ranks, log)
    assert error.code == Exit.QUOTA
    assert error.cause.startswith("conversion failed: OSError: [Errno 28]")
    stderr.unlink()
    assert str(log) in _failure(ranks, log).remedy
