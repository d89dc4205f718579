"""sweep: names of the runs, wrong options, and what becomes of each run; submit is tested apart."""

import errno
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from launchers.plan.run_length import Duration
from scripts.observe.command import Exit, Target
from scripts.plan import command as planning
from scripts.problem import Problem, UnknownState, WrongUse
from scripts.submit import command as submitting
from scripts.submit.command import Outcome
from scripts.sweep import command
from scripts.sweep.variants import LONGEST, variants

BETA = "recipe.args.beta=0.05,0.1,0.2"
TEAM, FILES = Target(run="dpo", namespace="team"), [Path("values/a100-2node.yaml")]
REQUEST = command.Request(target=TEAM, vary=[BETA], files=FILES, sets=["nodes=2"])
TIME = Duration(steps=10, hours=2.0, low=1.0, high=3.0, gpu_hours=32.0)


def test_each_combination_is_a_run_named_after_its_values() -> None:
    made = variants("dpo", [BETA, r"recipe.args.target_modules=q_proj\,v_proj,all-linear"])
    assert len(made) == len({each.run for each in made}) == 6
    assert made[0].sets == ["recipe.args.beta=0.05", r"recipe.args.target_modules=q_proj\,v_proj"]
    lists = variants("dpo", ["recipe.dataset={a,b},{c}"])
    assert [each.sets for each in lists] == [["recipe.dataset={a,b}"], ["recipe.dataset={c}"]]
    more = variants("dpo", ["recipe.args.beta=0.3,0.05"])
    assert more[1].run == variants("dpo", [BETA])[0].run, "a longer sweep leaves the others"


@pytest.mark.parametrize("values", ["1,-1", "a,A", f"{'x' * 30},{'y' * 30}"])
def test_names_differ_and_are_not_too_long(values: str) -> None:
    names = [each.run for each in variants("dpo", [f"recipe.args.x={values}"])]
    assert len({*names}) == 2 and all(len(name) <= LONGEST for name in names)


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["beta"],
        ["=1,2"],
        ["beta="],
        ["beta=1,,2"],
        ["beta=1,1"],
        ["beta=1", "beta=2"],
        ["a=1,2,3,4,5,6,7,8,9", "b=1,2,3,4,5,6,7,8"],
    ],
)
def test_wrong_options_are_refused(given: list[str]) -> None:
    with pytest.raises(WrongUse, match="--vary"):
        variants("dpo", given)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[submitting.Request]:
    """Return the submissions; the plan refuses beta 0.1, and Helm fails for 0.2."""
    found: list[submitting.Request] = []

    def predict(request: planning.Request) -> tuple[object, ...]:
        refused = ("beta: no",) if "recipe.args.beta=0.1" in request.sets else ()
        return None, SimpleNamespace(duration=TIME, gpu=None), SimpleNamespace(refusals=refused)

    def submit(request: submitting.Request, console: Console, outcome: Outcome) -> int:
        found.append(request)
        if "recipe.args.beta=0.2" in request.sets:
            raise Problem("helm upgrade failed")
        outcome.states.append({"sentence": "Waits in its queue."})
        return int(Exit.WAITING)

    monkeypatch.setattr(planning, "predict", predict)
    monkeypatch.setattr(submitting, "submit_planned", submit)
    return found


def swept(request: command.Request, answer: bool = True) -> tuple[int, str, Sequence[str]]:
    console, asked = Console(width=120), list[str]()

    def asking(question: str) -> bool:
        asked.append(question)
        return answer

    with console.capture() as captured:
        code = command.run(request, console, asking)
    return code, captured.get(), asked


def test_a_run_that_fails_is_told_and_the_others_are_submitted(
    installed: list[submitting.Request],
) -> None:
    code, output, asked = swept(REQUEST)
    assert code == Exit.FAILED
    assert asked == ["Submit 2 of 3 runs?"] and "64 GPU-hours" in output
    assert [each.target.run for each in installed] == ["dpo-beta-0-05", "dpo-beta-0-2"]
    assert installed[0].sets == ["nodes=2", "recipe.args.beta=0.05"]
    for said in (
        "ok     dpo-beta-0-05: Waits in its queue.",
        "failed dpo-beta-0-1: beta: no",
        "failed dpo-beta-0-2: helm upgrade failed",
        "megatron-dpo report dpo-beta-0-05 -n team\n",
    ):
        assert said in output


@pytest.mark.parametrize("error", [UnknownState("no answer"), OSError(errno.ENOSPC, "no space")])
@pytest.mark.parametrize("is_submitted", [False, True])
def test_an_error_after_the_submission_is_no_failure_and_keeps_the_account_of_the_others(
    error: Exception,
    is_submitted: bool,
    installed: list[submitting.Request],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def submit(request: submitting.Request, console: Console, outcome: Outcome) -> int:
        outcome.submitted = is_submitted
        raise error

    monkeypatch.setattr(submitting, "submit_planned", submit)
    code, output, _ = swept(replace(REQUEST, vary=["recipe.args.beta=0.05,0.2"]))
    state = "ok     " if is_submitted else "failed "
    assert code == (Exit.OK if is_submitted else Exit.FAILED)
    assert output.count(state) == 2 and output.count("its state is not known") == 2 * is_submitted


def test_nothing_is_submitted_without_consent_and_a_dry_run_needs_none(
    installed: list[submitting.Request],
) -> None:
    assert swept(REQUEST, answer=False)[0] == Exit.FAILED
    assert installed == []
    code, output, asked = swept(replace(REQUEST, vary=["recipe.args.beta=0.05"], dry_run=True))
    assert (code, list(asked), installed[0].dry_run) == (Exit.OK, [], True)
    assert "megatron-dpo report" not in output
