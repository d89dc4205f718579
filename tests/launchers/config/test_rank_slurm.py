import pytest

from launchers.config.rank import slurm_hosts
from launchers.exits import LaunchError


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("a1", ["a1"]),
        ("a1,b2", ["a1", "b2"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[08-10,12],x", ["gpu08", "gpu09", "gpu10", "gpu12", "x"]),
        ("a-[1-2],b-[1]", ["a-1", "a-2", "b-1"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu[1-2]-ib", ["gpu1-ib", "gpu2-ib"]),
    ],
)
def test_host_lists_expand_like_scontrol(text: str, expanded: list[str]) -> None:
    assert slurm_hosts(text) == expanded


@pytest.mark.parametrize(
    "text", ["", "gpu[1-", "gpu[]", ",a", "a,,b", "a,", "a, b", "gpu[3-1]", "gpu[1-x],b"]
)
def test_a_broken_host_list_is_refused(text: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        slurm_hosts(text)
    assert refusal.value.id == "slurm-node-list"
