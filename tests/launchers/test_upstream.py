"""Another version of ms-swift is told at once, with the one to use."""

from __future__ import annotations

import pytest

from launchers.diagnose import verdict
from launchers.exits import Exit, LaunchError
from launchers.upstream import require


def test_a_missing_name_ends_as_an_error_of_the_configuration() -> None:
    with pytest.raises(
        LaunchError, match=r"str has no jion in this image; use .*4\.4\.1"
    ) as refusal:
        require(str, "join", "jion")
    assert refusal.value.code == Exit.CONFIG
    told = verdict(f"launchers.exits.LaunchError: {refusal.value}\n", started=False)
    assert told is not None and told.code == Exit.CONFIG
