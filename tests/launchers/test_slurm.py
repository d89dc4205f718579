from __future__ import annotations

import pytest

from launchers.exits import LaunchError
from launchers.slurm import hosts


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("a1", ["a1"]),
        ("a1,b2", ["a1", "b2"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[08-10,12],x", ["gpu08", "gpu09", "gpu10", "gpu12", "x"]),
        ("a-[1-2],b-[1]", ["a-1", "a-2", "b-1"]),
    ],
)
def test_host_lists_expand_like_scontrol(text: str, expanded: list[str]) -> None:
    assert hosts(text) == expanded


@pytest.mark.parametrize("text", ["", "gpu[1-", "gpu[]", ",a"])
def test_a_broken_host_list_is_refused(text: str) -> None:
    with pytest.raises(LaunchError, match="is no host list"):
        hosts(text)
