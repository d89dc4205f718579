import pytest

from launchers.config.gpu_models import GPU_MODELS
from launchers.config.preflight import CHECKS, COLLECTIVE, from_env
from launchers.exits import Exit, LaunchError


def test_without_settings_everything_is_checked() -> None:
    found = from_env({})
    assert all(found.wants(check) for check in CHECKS)
    assert (found.gpu, found.transport, found.network_floor) == (None, "", None)


def test_settings_are_read() -> None:
    env = {"DPO_GPU_MODEL": "h200", "DPO_PREFLIGHT_SKIP": "pairs,disk", "DPO_PREFLIGHT_STRICT": "1"}
    env |= {"DPO_PREFLIGHT_NODE_FLOOR": "187.5", "DPO_NETWORK_FLOOR_GBS": "20"}
    found = from_env(env | {"DPO_NETWORK_TRANSPORT": "NET/IB"})
    assert (found.gpu, found.node_floor, found.network_floor) == (GPU_MODELS["h200"], 187.5, 20.0)
    assert (found.strict, found.transport) == (True, "NET/IB")
    assert [check for check in CHECKS if not found.wants(check)] == ["disk", "pairs"]


@pytest.mark.parametrize(
    ("env", "message", "id"),
    [
        ({"DPO_GPU_MODEL": "a100"}, "'a100' is unknown; use one of a100-40g", "gpu-model-unknown"),
        ({"DPO_PREFLIGHT_SKIP": "pair"}, "did you mean pairs?", "preflight-check-unknown"),
        ({"DPO_PREFLIGHT_NODE_FLOOR": "fast"}, "DPO_PREFLIGHT_NODE_FLOOR='fast'", "env-bandwidth"),
        ({"DPO_NETWORK_FLOOR_GBS": "-1"}, "DPO_NETWORK_FLOOR_GBS='-1'", "env-bandwidth"),
        ({"DPO_NETWORK_FLOOR_GBS": "nan"}, "DPO_NETWORK_FLOOR_GBS='nan'", "env-bandwidth"),
        ({"DPO_PREFLIGHT_DEADLINE": "5"}, "at least 10", "env-integer"),
        ({"SKIP_PREFLIGHT": "yes"}, "SKIP_PREFLIGHT='yes'", "env-switch"),
    ],
)
def test_a_wrong_setting_is_refused(env: dict[str, str], message: str, id: str) -> None:
    with pytest.raises(LaunchError) as refused:
        from_env(env)
    assert (refused.value.code, refused.value.id) == (Exit.CONFIG, id)
    assert message in str(refused.value)


def test_the_checks_at_work_are_checks() -> None:
    assert set(CHECKS) > COLLECTIVE
