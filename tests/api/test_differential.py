"""Chart or judge refuse what the API server would refuse of a pod, before Kueue reserves GPUs.

``make differential-api CASES=5000`` compares more; README.md has its results.
"""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.api.compare import Comparison, Outcome
from tests.api.running import comparison, missing

CASES = int(os.environ.get("CASES", "145"))
SEED = int(os.environ.get("CASES_SEED", "0"))

pytestmark = pytest.mark.skipif(
    bool(missing()), reason=f"no {', '.join(missing())}: `make differential-api` builds them"
)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    with comparison(tmp_path_factory.mktemp("api")) as started:
        yield started


@pytest.mark.timeout(0)
def test_the_server_refuses_nothing_that_chart_and_judge_accept(running: Comparison) -> None:
    outcomes = list(running.of(range(SEED, SEED + CASES)))
    assert [outcome for outcome in outcomes if outcome.verdict == "server"] == []
    # Parts that are all refused, or all accepted, would show nothing.
    seen = Counter(outcome.verdict for outcome in outcomes)
    assert min(seen["none"], seen["both"]) > 0.15 * CASES, seen
    assert seen["chart"] < 0.1 * CASES, seen


def test_what_only_the_server_refuses_is_found() -> None:
    outcome = Outcome(section="volumes", values={}, chart="", server="Pod is invalid")
    assert outcome.verdict == "server"
