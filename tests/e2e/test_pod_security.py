"""Pod Security levels of chart/OPERATIONS.md, verified by the API server's admission."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import yaml

from scripts.helm import CHART
from tests.e2e import standin
from tests.e2e.api import Object
from tests.e2e.api import Refused as NotAdmitted
from tests.e2e.merge import merge
from tests.e2e.release import Release
from tests.e2e.space import Opened, Space
from tests.e2e.until import until

LEVELS = ("restricted", "baseline", "privileged")
ROW = re.compile(r"^\| `(\{.*\}|\w+: .*)` \| (restricted|baseline|privileged) \|$", re.MULTILINE)


def table() -> dict[str, str]:
    """Return the Pod Security level by values from chart/OPERATIONS.md."""
    text = (CHART / "OPERATIONS.md").read_text(encoding="utf-8")
    return dict(ROW.findall(text.partition("\n## Pod Security\n")[2].partition("\n## ")[0]))


OPTIONS = table()


@pytest.fixture(scope="module")
def by_level(opened: Opened) -> Iterator[dict[str, Space]]:
    """An empty namespace of each level."""
    with ExitStack() as stack:
        made = {level: stack.enter_context(opened(level, level)) for level in LEVELS}
        for each in made.values():
            account = ("wait", "serviceaccount/default", "--for=create", "--timeout=30s")
            each.kubectl.run(*account)
        yield made


def described(space: Space, over: Object) -> Release:
    """Describe a run of the chart's defaults, without a file of values/."""
    base = standin.values()
    if "workspace" in over:
        base["workspace"] = {"existingClaim": None}
    values = merge(base, over)
    values["extraVolumes"] = base["extraVolumes"] + over.get("extraVolumes", [])
    return Release(name="dpo", space=space, values=values)


def pods(release: Release) -> list[Object]:
    made = {item["kind"]: item for item in release.render()}
    jobs = made["JobSet"]["spec"]["replicatedJobs"]
    specs = [made["Pod"]["spec"], *(job["template"]["spec"]["template"]["spec"] for job in jobs)]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{i}"}, "spec": spec}
        for i, spec in enumerate(specs)
    ]


def admit(release: Release) -> None:
    """Submit the run's pods to the namespace's admission as a dry run."""
    items = {"apiVersion": "v1", "kind": "List", "items": pods(release)}
    words = ("create", "--dry-run=server", "--validate=ignore", "-f", "-")
    release.space.kubectl.run(*words, stdin=json.dumps(items))


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_is_admitted_at_the_level_that_notes_say_and_refused_below(
    by_level: dict[str, Space], option: str
) -> None:
    level, over = OPTIONS[option], yaml.safe_load(option)
    admit(described(by_level[level], over))
    for below in LEVELS[: LEVELS.index(level)]:
        with pytest.raises(NotAdmitted, match="violates PodSecurity"):
            admit(described(by_level[below], over))
    notes = described(by_level[level], over).install("--dry-run=client")
    reported = re.search(r"the namespace must admit the (\w+) Pod Security level", notes)
    assert (reported[1] if reported else "restricted") == level


def test_the_table_has_something_of_each_level() -> None:
    assert set(OPTIONS.values()) == set(LEVELS)
    assert OPTIONS["{}"] == "restricted"


@pytest.mark.level("baseline")
def test_a_run_that_its_namespace_refuses_says_so_in_an_event(unqueued: Space) -> None:
    release = described(unqueued, {"network": {"profile": "ib-shared"}})
    assert "privileged" in release.install()
    # JobSet's webhook may refuse the first attempts, before it sees the Job.
    messages = "--output=jsonpath={.items[*].message}"
    reasons = ("get", "events", "--field-selector=reason=FailedCreate", messages)

    def reported() -> bool:
        return 'violates PodSecurity "baseline' in unqueued.kubectl.run(*reasons)

    until("an event reports it", reported, seconds=30)
    assert "IPC_LOCK" in unqueued.kubectl.run(*reasons)
