"""Properties of a run that a view derives from its objects."""

from typing import Any

import pytest

from tests.scripts.observe.planted import jobset, view


@pytest.mark.parametrize(
    ("status", "restarts"),
    [
        ({}, (0, 0)),
        ({"restarts": 3, "restartsCountTowardsMax": 1}, (3, 1)),
        # By JobSet's agent: all in place; two in place after one by new pods that does not count.
        ({"restarts": 0, "currentInPlaceRestartAttempt": 2}, (2, 2)),
        ({"restarts": 1, "currentInPlaceRestartAttempt": 3}, (3, 2)),
        ({"restarts": 2, "restartsCountTowardsMax": 2, "currentInPlaceRestartAttempt": 0}, (2, 2)),
    ],
)
def test_restarts_by_jobset_and_by_its_agent_are_added_up(
    status: dict[str, Any], restarts: tuple[int, int]
) -> None:
    assert view(jobset(**status)).restarts == restarts
