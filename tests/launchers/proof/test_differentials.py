"""What the runs of the cases say about each feature, with traces in place of runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launchers.proof import cases, prove


def found(
    monkeypatch: pytest.MonkeyPatch,
    features: list[str],
    *,
    wrong: frozenset[str] = frozenset(),
    calls: Mapping[str, Mapping[str, int]] | None = None,
) -> dict[str, list[str]]:
    """Return the faults of features: a run differs if it has all of the wrong ones together."""
    same = [{"calls": calls or {name: {} for name in features}}]

    def judged(folder: Path, names: list[str], pair: tuple[prove.Job, prove.Job]) -> list[str]:
        return ["differs"] if wrong and wrong <= {*names} else []

    def traces(folder: Path, job: prove.Job) -> list[Any]:
        at = (job["flags"]["rlhf_type"], "features" in job)
        return [{"calls": calls.get(at[0], {})}] if calls and at[0] in calls else same

    monkeypatch.setattr(prove, "run", lambda *_: None)
    monkeypatch.setattr(prove, "judged", judged)
    monkeypatch.setattr(prove, "_traces", traces)
    return dict(prove.differentials(Path("/w"), {}, features))


def test_of_patches_that_run_together_the_wrong_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = found(monkeypatch, ["one_read", "grad_check"], wrong=frozenset({"grad_check"}))
    assert said == {"one_read": [], "grad_check": ["differs"]}


def test_patches_that_differ_only_together_are_all_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["one_read", "grad_check"]
    said = found(monkeypatch, names, wrong=frozenset(names))
    assert said == {"one_read": ["differs"], "grad_check": ["differs"]}


@pytest.mark.parametrize(("with_kto", "faults"), [(1, []), (0, ["a:kl was not called"])])
def test_what_no_case_of_a_feature_calls_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, with_kto: int, faults: list[str]
) -> None:
    calls: dict[str, Any] = {"dpo": {"tokens": {"a:kl": 0, "a:get": 1}}}
    calls["kto"] = {"tokens": {"a:kl": with_kto, "a:get": 1}}
    assert found(monkeypatch, ["tokens"], calls=calls) == {"tokens": faults}


def test_a_patch_that_needs_another_is_run_with_it() -> None:
    _, ours = prove.jobs(Path("/w"), ["background_save"])
    assert ours["features"] == ["seal_megatron", "background_save"]
    _, group = prove.jobs(Path("/w"), ["background_save", "seal_megatron"])
    assert group["features"] == ["seal_megatron", "background_save"]
    assert cases.feature("tokens+kto") == "tokens"
