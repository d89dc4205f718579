"""The chart and the launcher say the same words of the same flags, over many cases at once."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers.config import recipe
from launchers.flags import flag_types
from launchers.flags.flag_types import Kind
from launchers.flags.overlap import NAME, SWITCH
from launchers.rules import table
from launchers.rules.condition import When
from launchers.rules.engine import Conflict, Local, Multiple, Order, Range, Rule, Words
from launchers.rules.facts import REFERENCE, TASK
from tests.chart.helm import CHART, template

TABLE = yaml.safe_load((CHART / "flags" / "ms-swift-4.4.1.yaml").read_text(encoding="utf-8"))
CASES = 700
GANGS = ((1, 8), (2, 8), (3, 4), (1, 1), (2, 7))
ODD: list[Any] = [
    *(0, 1, 2, 3, 4, 8, 16, 64, -1, 2.5, 1e-6, 5e-07, 10**6, 999999, True, False, "true", "No"),
    *("x", "007", "1e2", ".5", "1.", "+3", "-0", "1e999", "nan", "t", [4], [1, 2], ["a b"], {}),
    *({"a": 1}, "flash", "full", "selective", "none", "uniform", ["core_attn", "moe_act"], "é"),
]
JUDGE = """
{{- $table := .Files.Get "table.yaml" | fromYaml }}
{{- range .Values.cases }}
{{- $backend := get $table.backends .backend }}
{{- $recipe := dict "args" .args "task" .task "reference" .reference "checkFlags" true }}
{{- $given := dict "backend" $backend "recipe" $recipe "nodes" (int .nodes) "gpus" (int .gpus) }}
---
said: {{ include "megatron-dpo.validate.rules" $given | toJson }}
args: {{ include "megatron-dpo.recipe.args" .args | default " {}" }}
{{- end }}
"""
Case = dict[str, Any]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a chart that judges many recipes in one Helm process, by the real templates."""
    chart = tmp_path_factory.mktemp("judge")
    (chart / "templates").mkdir()
    for name in ("rules", "rule", "local", "kind", "multiple"):
        shutil.copy(CHART / "templates" / f"_validate_{name}.tpl", chart / "templates")
    for name in ("scalar", "recipe", "overrides"):
        shutil.copy(CHART / "templates" / f"_{name}.tpl", chart / "templates")
    shutil.copy(CHART / "flags" / "ms-swift-4.4.1.yaml", chart / "table.yaml")
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: judge\nversion: 0.0.1\n")
    (chart / "templates" / "judge.yaml").write_text(JUDGE)
    return chart


def said_by_the_chart(cases: list[Case], chart: Path) -> list[tuple[list[str], Case]]:
    """Return for each case the chart's messages and the flags as the launcher would read them."""
    documents = list(yaml.safe_load_all(template({"cases": cases}, chart=chart)))
    found = [d for d in documents if d]
    assert len(found) == len(cases)
    return [(re.findall(r"^- (.*)$", d["said"], re.MULTILINE), d["args"]) for d in found]


def said_by_the_launcher(case: Case, args: Case) -> list[str]:
    backend = case["backend"]
    document = {"backend": backend, "task": case["task"], "model": "m", "dataset": ["d"]}
    read = recipe.parse({**document, "args": args}).args
    known = {name: as_kind(kind) for name, kind in TABLE["backends"][backend]["kinds"].items()}
    gang = {"nodes": case["nodes"], "gpus_per_node": case["gpus"], "backend": backend}
    gang |= {name: case[name] for name in ("task", "reference")}
    return flag_types.check(read, known) + table.check(read, shape=None, **gang)


def as_kind(kind: Any) -> Kind:
    choices = isinstance(kind, list)
    return Kind(sort="choice", choices=tuple(kind)) if choices else Kind(sort=kind)


def case_of(
    backend: str, args: Case, task: str = "rlhf", gang: tuple[int, int] = (2, 8), once: bool = False
) -> Case:
    reference = "precomputed" if once else "online"
    case = {"backend": backend, "args": args, "task": task, "reference": reference}
    return {**case, "nodes": gang[0], "gpus": gang[1]}


def drawn(chance: random.Random) -> Case:
    """Draw a recipe of flags that rules read, with likely and unlikely values."""
    backend = chance.choice(["megatron"] * 9 + ["transformers"])
    read = sorted({flag for rule in table.ROWS[backend] for flag in rule.flags()})
    args: Case = {"num_train_epochs": 1} if backend == "megatron" else {}
    for flag in chance.sample(read, min(len(read), chance.randint(0, 12))):
        kind = TABLE["backends"][backend]["kinds"].get(flag)
        likely: dict[Any, list[Any]] = {
            "switch": [True, False],
            "whole": [1, 2, 8],
            "number": [0.5, 1e-6],
        }
        pool: list[Any] = kind if isinstance(kind, list) else likely.get(kind, [1, 2, 4, 8, 16])
        args[flag] = chance.choice(pool) if chance.random() < 0.8 else chance.choice(ODD)
    if chance.random() < 0.1:
        replaced: Case = {chance.choice([*read, NAME]): chance.choice([0, 1, True, "No"])}
        spelt = json.dumps(replaced)
        spellings: list[Any] = [replaced, spelt, [spelt], f"{spelt[:-1]},}}", "null", "[1]", "{}"]
        args["megatron_extra_kwargs"] = chance.choice(spellings)
    task = chance.choice(["rlhf", "rlhf", "sft", "pt"])
    return case_of(backend, args, task, chance.choice(GANGS), once=chance.random() < 0.2)


def breaking(backend: str, rule: Rule) -> Case:
    """Return a case that breaks one rule, made from its own data."""
    args: Case = {"num_train_epochs": 1}
    for condition in rule.when:
        args[condition.flag] = holding(condition)
    match rule:
        case Multiple():
            args |= {name: 3 for name in (rule.factors[0], *rule.replica[:1])}
            if rule.total != "world":
                args |= dict.fromkeys(rule.replica, 1) | {rule.total: 100, rule.factors[-1]: 3}
        case Range():
            args[rule.flag] = f"{rule.high}1" if rule.high else -1
        case Words():
            args[rule.flag] = ["unheard-of"]
        case Local():
            args[rule.flag] = ["hf://o/d@v"]
        case Order():
            args |= {rule.least: 3, rule.most: 2}
    if args.pop(SWITCH, False):
        args["megatron_extra_kwargs"] = {NAME: True}
    once = args.pop(REFERENCE, "online") == "precomputed"
    return case_of(backend, args, args.pop(TASK, "rlhf"), once=once)


def holding(condition: When) -> Any:
    """Return a value with which a condition holds; None where it must be missing."""
    match condition.test:
        case "on":
            return True
        case "off":
            return False
        case "is" | "has":
            return condition.words[0]
        case "isnt":
            choices = TABLE["backends"]["megatron"]["kinds"].get(condition.flag)
            choices = choices if isinstance(choices, list) else ["other"]
            choices = ["sft"] if condition.flag == TASK else choices
            return next(word for word in choices if word not in condition.words)
        case "over":
            return float(condition.words[0]) + (0.5 if "ratio" in condition.flag else 1)
        case "under":
            return 0.5 if "ratio" in condition.flag else float(condition.words[0]) - 1
        case "given":
            return 1
        case _:
            return None


@pytest.mark.timeout(120)
def test_the_chart_says_what_the_launcher_says(judge: Path) -> None:
    chance = random.Random(5)
    cases = [drawn(chance) for _ in range(CASES)]
    told: set[str] = set()
    for case, (said, args) in zip(cases, said_by_the_chart(cases, judge), strict=True):
        assert said == said_by_the_launcher(case, args), case
        told |= {re.sub(r"[0-9.e+-]+|\"[^\"]*\"", "_", message) for message in said}
    assert len(told) > 120, "the cases do not reach the rules any more"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_every_rule_can_be_broken_and_is_told_by_both(judge: Path, backend: str) -> None:
    rows = table.ROWS[backend]
    cases = [breaking(backend, rule) for rule in rows]
    answers = said_by_the_chart(cases, judge)
    for rule, case, (said, args) in zip(rows, cases, answers, strict=True):
        assert said == said_by_the_launcher(case, args), case
        words = rule.says.partition("{")[0] if isinstance(rule, Conflict) else ""
        named = [*rule.flags(), *(w.flag.removeprefix("recipe.") for w in rule.when)]
        names = [name for name in named if any(f".{name}:" in m for m in said)]
        assert any(words in message for message in said), (rule, said)
        assert names or isinstance(rule, Multiple), (rule, said)


def test_the_table_holds_every_rule() -> None:
    for backend, rows in table.ROWS.items():
        assert [r["kind"] for r in TABLE["backends"][backend]["rules"]] == [
            type(rule).__name__ for rule in rows
        ]
