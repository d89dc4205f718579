"""Pod Security levels of chart/OPERATIONS.md, verified by the API server's admission."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.chart.helm import render
from tests.chart.levels import LEVELS, options
from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.release import Release
from tests.e2e.space import Opened, Space
from tests.e2e.until import until

CREATED = re.compile(r"pod/option-(\d+)-\d+ created")
REFUSED = re.compile(r'pods "option-(\d+)-\d+" is forbidden: violates PodSecurity')


@pytest.fixture(scope="module")
def by_level(opened: Opened) -> Iterator[dict[str, Space]]:
    """An empty namespace of each level."""
    with ExitStack() as stack:
        made = {level: stack.enter_context(opened(level, level)) for level in LEVELS}
        for each in made.values():
            account = ("wait", "serviceaccount/default", "--for=create", "--timeout=30s")
            each.kubectl.run(*account)
        yield made


def pods(number: int, values: Object) -> list[Object]:
    """Return the pods of a run with one of the table's options, under names of its number."""
    made = {item["kind"]: item for item in render(values)}
    jobs = made["JobSet"]["spec"]["replicatedJobs"]
    specs = [made["Pod"]["spec"], *(job["template"]["spec"]["template"]["spec"] for job in jobs)]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"option-{number}-{i}"}, "spec": s}
        for i, s in enumerate(specs)
    ]


def test_each_option_is_admitted_at_the_level_of_the_table_and_refused_below(
    by_level: dict[str, Space],
) -> None:
    table = options()
    made = [pods(number, values) for number, (_, values) in enumerate(table.values())]
    refused = {}
    for level, space in by_level.items():
        done = space.kubectl.dry_run([pod for each in made for pod in each], "--validate=ignore")
        lines = (*CREATED.findall(done.stdout), *REFUSED.findall(done.stderr))
        assert len(lines) == sum(map(len, made)), done.stderr
        refused[level] = {int(number) for number in REFUSED.findall(done.stderr)}
    found = [
        next((level for level in LEVELS if number not in refused[level]), "none")
        for number in range(len(made))
    ]
    assert dict(zip(table, found, strict=True)) == {
        words: level for words, (level, _) in table.items()
    }
    assert refused["restricted"] >= refused["baseline"] >= refused["privileged"] == set()


@pytest.mark.level("baseline")
def test_a_run_that_its_namespace_refuses_says_so_in_an_event(unqueued: Space) -> None:
    values = {**standin.values(), "network": {"profile": "ib-shared"}}
    release = Release(name="dpo", space=unqueued, values=values)
    assert "privileged" in release.install()
    # JobSet's webhook may refuse the first attempts, before it sees the Job.
    messages = "--output=jsonpath={.items[*].message}"
    reasons = ("get", "events", "--field-selector=reason=FailedCreate", messages)

    def reported() -> bool:
        return 'violates PodSecurity "baseline' in unqueued.kubectl.run(*reasons)

    until("an event reports it", reported, seconds=30)
    assert "IPC_LOCK" in unqueued.kubectl.run(*reasons)
