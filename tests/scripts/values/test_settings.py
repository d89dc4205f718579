"""`plan` warns of settings that Kubernetes accepts and that have no effect, or another one."""

import pytest

from scripts.plan.verdict import judge
from tests.scripts.plan.values import planned, rendered

MOUNT = "extraVolumeMounts[0].name=x", "extraVolumeMounts[0].mountPath=/datasets"
UNREAD = ": nothing here reads it"
VOLUME = "extraVolumes[0].name=x", "extraVolumes[0].emptyDir.medium="


@pytest.mark.parametrize(
    ("sets", "begin"),
    [
        (VOLUME, "extraVolumes: x is mounted in no container"),
        (("terminationGracePeriodSeconds=1",), "terminationGracePeriodSeconds: 1 is too short"),
        (("ttlSecondsAfterFinished=0",), "ttlSecondsAfterFinished: 0 deletes the run"),
        (("extraEnv.PATH=/usr/bin:/bin",), "extraEnv.PATH: replaces the image's"),
        (("extraEnv.NUM_WORKERS=1",), f"extraEnv.NUM_WORKERS{UNREAD}; set recipe"),
        (("extraEnv.SLEEP_INFINITY=a",), f"extraEnv.SLEEP_INFINITY{UNREAD}; set debug"),
        (("extraEnv.NCCL_TREE_THRESHOLD=0",), "extraEnv.NCCL_TREE_THRESHOLD: nothing here reads"),
        (("extraEnv.GREETING=“hi”",), "extraEnv.GREETING: typographic quotes"),
        (("extraEnv.FI_PROVIDER='efa'",), "extraEnv.FI_PROVIDER: quotes are a part of the value"),
        (("extraEnv.NCCL_DBEUG=INFO",), f"extraEnv.NCCL_DBEUG{UNREAD}; the nearest is NCCL_DEBUG"),
        (("extraEnv.NCCL_P2P_DISABLE=1",), "extraEnv.NCCL_P2P_DISABLE: NCCL uses no NVLink"),
        (("extraEnv.NCCL_TOPO_FILE=/opt/a.xml",), "extraEnv.NCCL_TOPO_FILE: /opt/a.xml is below"),
        (("extraEnv.HF_HUB_OFFLINE=1",), "recipe.model: HF_HUB_OFFLINE is set"),
        (("recipe.dataset={file:///datasets/a.jsonl}",), "recipe.dataset[0]: /datasets/a.jsonl is"),
        (("recipe.model=file:///models/a",), "recipe.model: /models/a is below no mount"),
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
