"""Each state in which a run does not go on is shown on the cluster, or listed with the reason."""

import re

from launchers.yaml_file import read_yaml
from scripts.helm import ROOT
from scripts.why.reasons import Kind, states
from tests.e2e import test_why

E2E = ROOT / "tests" / "e2e"
LISTED: dict[str, str] = read_yaml(E2E / "why_not_shown.yaml")
KINDS = (Kind.WAITING, Kind.FAILING, Kind.FAILED)
RUNS_WHY = re.compile(r'\bexplained\(|"why"|\.why\(\)')
"""Only modules that run `why`: the doctor's ids are partly the same words."""


def modules() -> dict[str, str]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(E2E.glob("test_*.py"))}
    return {name: text for name, text in texts.items() if RUNS_WHY.search(text)}


def test_each_state_is_named_by_a_module_that_runs_why_or_listed_with_a_reason() -> None:
    texts = modules()
    assert {"test_why.py", "test_why_queue.py", "test_why_pods.py", "test_see.py"} <= set(texts)
    assert "test_doctor.py" not in texts
    planted = read_yaml(E2E / "remedies.yaml")
    named = {each["why"] for each in planted}
    named |= set(test_why.PLANTED.split())
    named |= set(re.findall(r'"([a-z-]+)"', "\n".join(texts.values())))
    ids = {state.id for state in states() if state.kind in KINDS}
    assert len(ids) > 70
    assert ids - named == set(LISTED)
    assert all(len(reason.split()) > 5 for reason in LISTED.values())
