"""`plan` warns of settings that Kubernetes accepts and that have no effect, or another one."""

import pytest

from scripts.plan.verdict import judge
from tests.scripts.plan.values import planned, rendered

MOUNT = "extraVolumeMounts[0].name=x", "extraVolumeMounts[0].mountPath=/datasets"
VOLUME = "extraVolumes[0].name=x", "extraVolumes[0].emptyDir.medium="


@pytest.mark.parametrize(
    ("sets", "begin"),
    [
        (("extraEnv.GREETING=“hi”",), "extraEnv.GREETING: typographic quotes"),
        (("recipe.dataset={file:///datasets/a.jsonl}",), "recipe.dataset[0]: /datasets/a.jsonl is"),
    ],
)
def test_a_setting_without_its_effect_is_named(sets: tuple[str, ...], begin: str) -> None:
    assert any(each.startswith(begin) for each in rendered(*sets).warnings), begin
    assert not any(each.startswith(begin) for each in rendered().warnings)


def test_nothing_is_said_of_the_shipped_values_and_of_files_on_a_mount() -> None:
    assert rendered().warnings == ()
    mounted = rendered(*VOLUME, *MOUNT, "recipe.dataset={file:///datasets/a.jsonl}")
    assert mounted.warnings == ()
    plain = ("NCCL_P2P_DISABLE=0", "NCCL_MIN_P2P_NCHANNELS=8", "NCCL_FASTRAK_IFNAME=eth1")
    skipped = ("extraEnv.HF_HUB_OFFLINE=1", "stages.download.skip=true")
    assert rendered(*skipped, *(f"extraEnv.{each}" for each in plain)).warnings == ()


def test_the_verdict_holds_refusals_and_warnings_of_settings() -> None:
    found = judge(*planned("terminationGracePeriodSeconds=1", "extraEnv.NCCL_NET=Socket"))
    assert any("[network-transport]" in each for each in found.refusals)
    assert any(each.startswith("terminationGracePeriodSeconds: 1") for each in found.warnings)
