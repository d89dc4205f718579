"""`helm upgrade` by both Helms: a run stays unchanged; a change to it is refused with a remedy."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e import queues, standin
from tests.e2e.api import Object
from tests.e2e.release import HELM3, HELM4, Refused, Release
from tests.e2e.runs import Run
from tests.e2e.space import Opened


@dataclass(frozen=True, kw_only=True)
class Held:
    release: Release
    run: Run


@pytest.fixture(scope="module", params=[HELM4, HELM3], ids=["helm4", "helm3"])
def held(request: pytest.FixtureRequest, opened: Opened) -> Iterator[Held]:
    """A run of low priority, installed by one of the Helms."""
    with opened("upgrade") as made:
        standin.prepare(made)
        queues.make(made)
        over = {"kueue": {"priorityClass": "low"}}
        release, run, _ = standin.train(made, over, helm=request.param)
        yield Held(release=release, run=run)


def test_an_unchanged_upgrade_does_nothing(held: Held) -> None:
    before = held.run.state()
    held.release.upgrade(None, "--dry-run=server")
    held.release.upgrade()
    assert held.run.state() == before


CHANGES: dict[str, Object] = {
    "recipe: args.lr": {"recipe": {"args": {"lr": "1e-6"}}},
    "pods: image": {"image": {"tag": "2"}},
    "pods: ": {"restarts": {"max": 1}},
}
"""Changes of immutable JobSet fields, by the words of the refusal."""


@pytest.mark.parametrize("named", CHANGES)
@pytest.mark.parametrize("words", [(), ("--dry-run=server",)], ids=["upgrade", "dry-run"])
def test_what_a_run_cannot_change_is_refused_with_the_way_out(
    held: Held, named: str, words: tuple[str, ...]
) -> None:
    before = held.run.state()
    with pytest.raises(Refused) as refused:
        held.release.upgrade(CHANGES[named], *words)
    text = str(refused.value)
    assert named in text
    assert "another name" in text
    assert f"helm -n {held.run.space.name} uninstall dpo --cascade foreground --wait" in text
    assert held.run.state() == before


def test_what_jobset_and_kueue_let_change_changes(held: Held) -> None:
    before = held.run.state()
    held.release.upgrade({"kueue": {"priorityClass": "high"}})
    labels = held.run.jobset["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    assert held.run.state() == before


def test_an_upgrade_of_a_run_that_has_ended_does_not_start_it_again(held: Held) -> None:
    standin.finish(held.run)
    before = held.run.state()
    held.release.upgrade({"kueue": {"priorityClass": "high"}})
    assert held.run.state() == before
    assert held.run.restarts == (0, 0)
