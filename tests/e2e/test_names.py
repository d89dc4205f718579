"""Concurrent runs with names of the maximum length."""

import re

import pytest

from tests.e2e import standin
from tests.e2e.merge import merge
from tests.e2e.release import Refused
from tests.e2e.space import Space

HALF = {"gpusPerNode": 4, "recipe": {"args": {"pipeline_model_parallel_size": 1}}}


def longest(space: Space, letter: str, placement: str) -> str:
    """Return the longest legal name of a letter, from the refusal of a longer one."""
    over = {"stages": {"placement": placement}}
    with pytest.raises(Refused) as refused:
        standin.release(space, letter * 53, over)[0].install("--dry-run=client")
    match = re.search(r"at most (\d+)", str(refused.value))
    assert match, refused.value
    return letter * int(match[1])


def test_two_runs_of_the_longest_legal_names_run_and_do_not_disturb_each_other(
    queued: Space,
) -> None:
    made = []
    for letter, placement in (("a", "inline"), ("b", "jobs")):
        over = merge(HALF, {"stages": {"placement": placement}})
        made.append(standin.release(queued, longest(queued, letter, placement), over, hold=True))
    for release, _ in made:
        release.install()
    for _, run in made:
        run.training()
    (first_release, first), (_, second) = made
    first_release.uninstall()
    assert [pod.phase for pod in second.pods()] == ["Running"] * 2
    standin.finish(second)
    assert second.restarts == (0, 0)
    assert not first.space.kubectl.find("jobset", first.name)
