"""Versions of upstream's packages: those of the preflight are in its own tests."""

import pytest

from launchers.rules.table import rows
from launchers.upstream.versions import parse_version


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("4.6.0", (4, 6, 0)),
        ("4.6.0rc1", (4, 6, 0)),
        ("4.6.0.dev0", (4, 6, 0)),
        ("4.6", (4, 6, 0)),
        ("2.11.0+cu130", (2, 11, 0)),
        ("2.7.0a0+7c8ec84dab.nv25.3", (2, 7, 0)),
        ("1.2.3.4", (1, 2, 3, 4)),
        ("", ()),
        ("main", ()),
    ],
)
def test_a_pre_release_and_a_local_build_count_as_their_release(
    text: str, numbers: tuple[int, ...]
) -> None:
    assert parse_version(text) == numbers


@pytest.mark.parametrize("text", ["4.6.0rc1", "4.6.0.dev0", "4.6"])
def test_a_pre_release_has_the_rules_of_its_release(text: str) -> None:
    assert rows("megatron", text) == rows("megatron", "4.6.0") != rows("megatron", "4.4.2")
