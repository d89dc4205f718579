"""`megatron-dpo doctor` through its command line, on the test cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import standin
from tests.e2e.merge import merge
from tests.e2e.release import A100, Values
from tests.e2e.see import megatron_dpo
from tests.e2e.space import Space

Line = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    code: int
    lines: tuple[Line, ...]

    def at(self, level: str) -> list[Line]:
        return [line for line in self.lines if line["level"] == level]

    def ids(self, level: str) -> list[str]:
        return [line["id"] for line in self.at(level)]

    def subjects(self, level: str) -> list[str]:
        return [line["subject"] for line in self.at(level)]


def look(
    space: Space, over: Values | None = None, *, run: str = "dpo", kubeconfig: Path | None = None
) -> Diagnosis:
    """Run the doctor for the stand-in's run with overridden values."""
    file = space.folder / "doctor.yaml"
    file.write_text(yaml.safe_dump(merge(standin.values(), over or {})), encoding="utf-8")
    words = ("doctor", "-f", str(A100), "-f", str(file), "--run", run, "--json")
    said = megatron_dpo(space, *words, kubeconfig=kubeconfig, seconds=120)
    assert said.code in (0, 1) and said.out, said.err
    return Diagnosis(code=said.code, lines=tuple(said.document["findings"]))


def without_rules(value: Any) -> Any:
    """Return an object without CEL rules: some refer to fields that an old CRD lacks."""
    if isinstance(value, list):
        return [without_rules(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_rules(item) for key, item in value.items() if key != "x-kubernetes-validations"
    }
