"""Names of runs: concurrent runs, the maximum length, and refusal of longer names."""

import re

import pytest

from tests.e2e import standin
from tests.e2e.release import Refused
from tests.e2e.space import Space


def test_two_runs_of_one_namespace_do_not_disturb_each_other(queued: Space) -> None:
    size = {"gpusPerNode": 4, "recipe": {"args": {"pipeline_model_parallel_size": 1}}}
    made = [standin.release(queued, name, size, hold=True) for name in ("dpo-a", "dpo-b")]
    for release, _ in made:
        release.install()
    for _, run in made:
        run.running(2)
    (first_release, first), (_, second) = made
    first_release.uninstall()
    assert [pod.phase for pod in second.pods()] == ["Running"] * 2
    standin.finish(second)
    assert second.restarts == (0, 0)
    assert not first.space.kubectl.find("jobset", first.name)


@pytest.mark.parametrize("placement", ["inline", "jobs"])
def test_the_longest_legal_name_really_runs_and_one_more_letter_is_refused(
    queued: Space, placement: str
) -> None:
    over = {"stages": {"placement": placement}}
    with pytest.raises(Refused) as refused:
        standin.release(queued, "a" * 53, over)[0].install("--dry-run=client")
    match = re.search(r"at most (\d+)", str(refused.value))
    assert match, refused.value
    longest = int(match[1])
    with pytest.raises(Refused):
        standin.release(queued, "a" * (longest + 1), over)[0].install("--dry-run=client")
    release, run = standin.release(queued, "a" * longest, over)
    release.install()
    run.ended()
    assert run.states["train"] == "done"
