"""Runs that Argo CD syncs: ``helm template`` and ``kubectl apply``, without an upgrade guard."""

from collections.abc import Iterator

import pytest

from tests.e2e import queues, standin
from tests.e2e.api import Refused
from tests.e2e.release import Release, Values
from tests.e2e.runs import Run
from tests.e2e.space import Opened, Space

CLIENT: tuple[str, ...] = ()
SERVER = ("--server-side", "--force-conflicts", "--field-manager=argocd-controller")
"""Words of kubectl apply for Argo CD's sync option ServerSideApply=true."""


class Synced:
    """A run that a GitOps controller keeps in sync, while it trains."""

    def __init__(self, space: Space, release: Release, run: Run) -> None:
        """Take a release that was never installed."""
        self.space, self.release, self.run = space, release, run

    def sync(self, over: Values | None = None, words: tuple[str, ...] = CLIENT) -> str:
        """Apply the release's manifest with values that override the first ones."""
        manifest = self.release.manifest("--skip-tests", changes=over)
        return self.space.kubectl.run("apply", *words, "-f", "-", stdin=manifest)


@pytest.fixture(scope="module", params=[CLIENT, SERVER], ids=["client-side", "server-side"])
def words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


@pytest.fixture(scope="module")
def synced(words: tuple[str, ...], opened: Opened) -> Iterator[Synced]:
    with opened("gitops") as made:
        standin.prepare(made)
        queues.make(made)
        release, run = standin.release(made, "dpo", hold=True)
        found = Synced(made, release, run)
        found.sync(words=words)
        run.training()
        yield found


def test_a_repeated_sync_changes_nothing(synced: Synced, words: tuple[str, ...]) -> None:
    """Client-side, the list of jobs would lose what Kueue has set in it, which is refused."""
    before = synced.run.state()
    if words == SERVER:
        synced.sync(words=words)
    else:
        with pytest.raises(Refused, match="immutable"):
            synced.sync(words=words)
    assert synced.run.state() == before


@pytest.mark.parametrize(
    "over", [{"recipe": {"args": {"lr": "1e-6"}}}, {"image": {"tag": "2"}}], ids=["recipe", "pods"]
)
def test_the_api_server_refuses_to_change_a_run(
    synced: Synced, words: tuple[str, ...], over: Values
) -> None:
    before = synced.run.state()
    with pytest.raises(Refused, match="immutable"):
        synced.sync(over, words)
    assert synced.run.state() == before


def test_what_may_change_is_merged_with_what_kueue_has_set(
    synced: Synced, words: tuple[str, ...]
) -> None:
    if words == CLIENT:
        pytest.skip("refused as a repeated sync is")
    before = synced.run.state()
    synced.sync({"ttlSecondsAfterFinished": 7}, words)
    after = synced.run.state()
    assert after["spec"].pop("ttlSecondsAfterFinished") == 7
    before["spec"].pop("ttlSecondsAfterFinished", None)
    assert after.pop("generation") > before.pop("generation")
    assert after == before
