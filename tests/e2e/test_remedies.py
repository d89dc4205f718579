"""`why --fix` on planted faults: each remedy that is a command repairs its fault."""

import contextlib
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from _pytest.mark.structures import ParameterSet

from megatron_dpo import Run as Asked
from megatron_dpo.documents import Reason
from scripts.problem import Problem
from scripts.why.words import COMMAND
from tests.e2e import pausing
from tests.e2e.api import Refused
from tests.e2e.cluster.layout import RACK_LABEL
from tests.e2e.pausing import Pausing
from tests.e2e.rights import member
from tests.e2e.runs import Run
from tests.e2e.see import megatron_dpo
from tests.e2e.space import Opened, Space
from tests.e2e.until import PROCESS_PAUSE, until

FAULTS = yaml.safe_load(Path(__file__).with_name("remedies.yaml").read_text(encoding="utf-8"))
CLUSTER_WIDE = {"AdmissionCheck": "admissionchecks", "ResourceFlavor": "resourceflavors"}
Fault = Mapping[str, Any]


def _is_apart(fault: Fault) -> bool:
    """Return whether a fault is planted when its turn comes."""
    return not {"alone", "before", "apart"}.isdisjoint(fault)


def _is_retried(fault: Fault) -> bool:
    """Return whether a kubelet has to try again, 10 s to 20 s after the repair."""
    return fault["by"] != "nobody" and "env" in fault.get("jobset", {})


def _cases(faults: Iterable[Fault]) -> list[ParameterSet]:
    return [pytest.param(each, id=each["run"]) for each in faults]


@pytest.fixture(scope="module")
def shared(opened: Opened) -> Iterator[Space]:
    """A namespace with a flavor of all nodes, a queue with quota, and the faults."""
    with opened("remedies") as made:
        made.kubectl.apply([pausing.plain(made), *pausing.queue(made, "open", gpus=64)])
        together = [_of(each, made) for each in FAULTS if not _is_apart(each)]
        for each in together:
            _start(made, each)
        for each in together:
            _plant(made, each)
        yield made


def _of(fault: Fault, space: Space) -> Fault:
    text = yaml.safe_dump(fault).replace("$space", space.name).replace("$rack", RACK_LABEL)
    found: Fault = yaml.safe_load(text)
    return found


def _run(fault: Fault, space: Space) -> Asked:
    return Asked(fault["run"], namespace=space.name, source="api")


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("fault", _cases(FAULTS))
def test_a_planted_fault_is_repaired_by_its_remedy(
    fault: Fault, shared: Space, opened: Opened
) -> None:
    with contextlib.ExitStack() as stack:
        space = shared
        if "alone" in fault:
            space = stack.enter_context(opened(fault["run"], fault["alone"]))
        fault = _of(fault, space)
        if not _is_retried(fault):
            stack.callback(_end, space, fault)
        if _is_apart(fault):
            _start(space, fault)
            _plant(space, fault)
        run = _run(fault, space)
        first = _awaited(run, [fault["why"]])
        assert fault.get("says", "") in first.sentence
        _repair(space, fault, run)
        if fault["by"] != "nobody" and not _is_retried(fault):
            _proceeds(space, fault, run)


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("fault", _cases(filter(_is_retried, FAULTS)))
def test_a_container_starts_after_the_repair(fault: Fault, shared: Space) -> None:
    _proceeds(shared, fault, _run(fault, shared))
    _end(shared, fault)


def _start(space: Space, fault: Fault) -> None:
    for each in fault.get("objects", ()):
        if plural := CLUSTER_WIDE.get(each["kind"]):
            space.queues.append(f"{plural}.kueue.x-k8s.io/{each['metadata']['name']}")
        space.kubectl.apply([each])
    fields = fault.get("jobset", {})
    if "queue" in fault:
        space.kubectl.apply(pausing.queue(space, fault["run"], **fault["queue"]))
    for line in fault.get("before", ()):
        space.kubectl.run(*shlex.split(line))
    pausing.start(space, Pausing(name=fault["run"], **{"queue": fault["run"], **fields}))


def _plant(space: Space, fault: Fault) -> None:
    if "plant" in fault:
        Run(name=fault["run"], space=space).running(1)
    for line in fault.get("plant", ()):
        _change(space, fault["run"], line)


def _change(space: Space, run: str, line: str) -> None:
    """Plant a fault of a run that runs: by a line of kubectl, or as a person does."""
    if line == "stop":
        assert megatron_dpo(space, "stop", run, "--yes").code == 0
    else:
        space.kubectl.run(*line.split())


def _awaited(run: Asked, ids: list[str]) -> Reason:
    """Wait until `why` names one of these states first; return it."""
    last: list[Reason] = []

    def is_first() -> bool:
        last[:] = run.why().reasons[:1]
        return last[0].id in ids

    try:
        until(f"why {run.name} says {ids}", is_first, seconds=60, pause=PROCESS_PAUSE)
        return last[0]
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None


def _repair(space: Space, fault: Fault, run: Asked) -> None:
    """Repair a fault as its row says, after what must not be done without a person."""
    by = fault["by"]
    if by == "yes":
        assert _words(run.why(fix=True)).startswith(fault["command"])
        return
    with pytest.raises(Problem, match="A person has to judge|no remedy of this run is a command"):
        run.why(fix=True)
    reason = run.why().reasons[0]
    assert reason.id == fault["why"]
    if by == "person":
        assert _words(run.why(fix=lambda one: one.reason.id == fault["why"])).startswith(
            fault["command"]
        )
    elif by == "fill":
        shown = [match[1] for match in COMMAND.finditer(reason.remedy)]
        [command] = [each for each in shown if each.startswith(fault["command"])]
        _execute(space, command, fault["fill"])


def _words(said: Any) -> str:
    return shlex.join(said.fixed.command)


def _execute(space: Space, command: str, fill: Mapping[str, str]) -> None:
    """Run a command that is shown with the words that a person gives, as a shell does."""
    for word, given in fill.items():
        command, count = re.subn(rf"\b{word}\b", given, command)
        assert count, (word, command)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


def _proceeds(space: Space, fault: Fault, run: Asked) -> None:
    if after := fault.get("after"):
        _awaited(run, after)
    else:
        pods = fault.get("jobset", {}).get("nodes", 1)
        Run(name=fault["run"], space=space).running(pods, seconds=90)


def _end(space: Space, fault: Fault) -> None:
    space.kubectl.delete("jobset", fault["run"], wait=False)
    for line in fault.get("last", ()):
        with contextlib.suppress(Refused):  # it is repaired already
            space.kubectl.run(*shlex.split(line))


def test_without_the_right_the_command_is_for_the_administrator(shared: Space, asked: None) -> None:
    pod = {"serviceAccountName": "nobody"}
    pausing.start(shared, Pausing(name="rightless", queue="open", pod=pod))
    _awaited(Asked("rightless", namespace=shared.name, source="api"), ["service-account-missing"])
    said = megatron_dpo(
        shared, "why", "rightless", "--fix", "--yes", kubeconfig=member(shared, "guest")
    )
    assert said.code == 1
    assert "you lack the permission: create serviceaccount" in said.err
    assert f"kubectl create serviceaccount nobody -n {shared.name}" in said.err
    assert shared.kubectl.find("serviceaccount", "nobody") is None
    assert megatron_dpo(shared, "why", "rightless", "--fix", "--yes").code == 0
    Run(name="rightless", space=shared).running(1, seconds=90)
