"""`why` on objects of a real API server: each state that needs neither Kueue nor the workspace."""

from collections.abc import Mapping

import pytest

from megatron_dpo import Run
from tests.e2e import volumes
from tests.e2e.measured import measured
from tests.e2e.planted import plant, renamed
from tests.e2e.space import Space
from tests.scripts.why.states import STATES

PLANTED = """
no-progress gpu-memory user-error hang host-memory gang-incomplete storage-failed hub-unavailable
pod-evicted terminated rank-failed jobset-user-rule restarts-exhausted jobset-failed suspended
pods-refused-security pods-refused-quota pods-refused-webhook pods-refused scheduling-gated
unschedulable-resources unschedulable-taint unschedulable-affinity unschedulable image-name-invalid
image-pull-denied image-pull secret-missing config-map-missing key-missing mount-failed
container-not-started init-container node-lost starting restarting pods-awaited ending running
"""
"""Ids of states."""
AT_ONCE = 8
"""Runs at once, so few that all are explained before the garbage collector removes their pods."""


@pytest.mark.usefixtures("asked")
def test_why_names_each_planted_state_first(empty: Space) -> None:
    volumes.claim(empty, "training")
    names = {id: f"s{number}" for number, id in enumerate(PLANTED.split())}
    assert len(names) == 39
    wrong: dict[str, object] = {}
    with measured(f"megatron-dpo why, {len(names)} planted states"):
        for first in range(0, len(names), AT_ONCE):
            wrong |= _wrong(empty, dict(list(names.items())[first : first + AT_ONCE]))
    # On a busy machine the garbage collector can be first: once more, one at a time.
    for id in list(wrong):
        del wrong[id]
        wrong |= _wrong(empty, {id: f"again-{names[id]}"})
    assert wrong == {}


def _wrong(space: Space, names: Mapping[str, str]) -> dict[str, object]:
    """Plant states under names; return what `why` says of those that it does not name first."""
    plant(space.kubectl, {name: STATES[id][0]() for id, name in names.items()})
    wrong: dict[str, object] = {}
    for id, name in names.items():
        first, *_ = Run(name, namespace=space.name, source="api").why().reasons
        fact = renamed(STATES[id][1], name)
        if first.id != id or fact not in first.sentence or not first.remedy:
            wrong[id] = (fact, first)
    return wrong
