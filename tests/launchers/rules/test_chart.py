"""The chart and the launcher say the same words of the same flags, over many cases at once."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from launchers.config import recipe
from launchers.config.recipe import OWN, TASK, TRAINS
from launchers.flags import flag_types
from launchers.flags.flag_types import FlagType
from launchers.rules import table
from launchers.rules.engine import Facts, Local, Multiple, Names, Order, Range, Rule, When, Words
from scripts.dev.flags import IN_TEMPLATES, is_bound
from scripts.values.flags import table_of
from tests.chart.helm import CHART, LIBRARY, Refused, template
from tests.chart.test_values import SCHEMA
from tests.launchers.training_environment import STACK

FLAGS = SCHEMA["definitions"]["flags"]["definitions"]
CASES = 700
GANGS = ((1, 8), (2, 8), (3, 4), (1, 1), (2, 7))
ODD: list[Any] = yaml.safe_load("""
[0, 1, 2, 3, 4, 8, 16, 64, -1, 2.5, 1.0e-6, 5.0e-7, 1000000, 999999, true, false, "true", "No", x,
 "007", "1e2", ".5", "1.", "+3", "-0", "1e999", "nan", t, [4], [1, 2], ["a b"], {}, {a: 1},
 flash, full, selective, none, uniform, [core_attn, moe_act], é]
""")
JUDGE = """
{{- $table := .Files.Get "table.yaml" | fromYaml }}
{{- range .Values.cases }}
{{- $backend := get $table.backends .backend }}
{{- $recipe := merge (dict "args" .args "checkFlags" true) .own }}
{{- $gang := dict "nodes" (int .nodes) "gpus" (int .gpus) }}
{{- $given := merge (dict "backend" $backend "recipe" $recipe) $gang }}
---
said: {{ include "megatron-dpo.validate.rules" $given | toJson }}
args: {{ include "megatron-dpo.recipe.args" .args | default " {}" }}
{{- end }}
"""
PLAIN = {name.removeprefix(OWN): text for name, text in table.PLAIN.items()}
"""The recipe's own keys and their defaults."""
CHOICES = {
    "task": ("rlhf", "rlhf", "sft", "pt"),
    "reference": (*("online",) * 4, "precomputed"),
    "export": (*("last",) * 4, "best"),
    "pairWeights": ("equal", "pack"),
    "promptOnce": ("auto", "false", "true"),
    "adapterReference": ("adapter", "adapter", "base"),
}
"""Texts of the recipe's own keys, likely ones several times."""
Case = dict[str, Any]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a chart that judges many recipes in one Helm process, by the real templates."""
    chart = tmp_path_factory.mktemp("judge")
    (chart / "templates").mkdir()
    for folder in ("recipe", "lib"):
        shutil.copytree(CHART / LIBRARY / "templates" / folder, chart / "templates" / folder)
    (chart / "table.yaml").write_text(yaml.safe_dump(table_of(STACK.swift), sort_keys=False))
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
    own = {**case["own"], "promptOnce": yaml.safe_load(case["own"]["promptOnce"])}
    document = {"backend": case["backend"], "model": "m", "dataset": ["d"], **own, "args": args}
    read = recipe.parse(document)
    sizes = {"nodes": case["nodes"], "gpus_per_node": case["gpus"]}
    context = table.Context.of(read, model_config=None, swift=STACK.swift, **sizes)
    return [str(refusal) for refusal in table.check(read.args, context)]


def properties(group: str) -> Case:
    found: Case = FLAGS[group]["properties"]
    return found


def checked_groups(backend: str) -> tuple[str, ...]:
    """Return the groups of the schema that hold with ``recipe.checkFlags``."""
    return ("pinned", f"{backend}Pinned", f"{backend}-{STACK.swift}")


def schema_of(backend: str, flag: str) -> Case:
    """Return what the schema says of a flag's value; an empty map where it says nothing."""
    for group in (*checked_groups(backend), f"{backend}Sizes"):
        if flag in properties(group):
            found: Case = properties(group)[flag]
            return found
    return {}


def type_of(backend: str, flag: str) -> FlagType | None:
    """Return what the schema lets a flag take; None where it says nothing or has bounds."""
    found = schema_of(backend, flag)
    name = found.get("$ref", "").rpartition("/")[2]
    if name and name != "scalar":  # one value, which a rule of the table bounds
        return FlagType(type=name)
    words = found.get("anyOf", [found])[0].get("enum")
    return None if words is None else FlagType(type="choice", choices=tuple(words[:-1]))


def in_templates(messages: list[str], backend: str) -> list[str]:
    """Return the launcher's messages of the rules that the chart's templates judge."""
    rules = table.rows(backend, STACK.swift)
    ids = {rule.id for rule in rules if isinstance(rule, IN_TEMPLATES)}
    return [each for each in messages if each.rpartition("[")[2].rstrip("]") in ids]


def case_of(backend: str, args: Case, own: Case, gang: tuple[int, int] = (2, 8)) -> Case:
    """Return a case; ``own`` has the recipe's own keys that differ from their defaults."""
    given = {name: own.get(name, default) for name, default in PLAIN.items()}
    return {"backend": backend, "args": args, "own": given, "nodes": gang[0], "gpus": gang[1]}


def drawn(chance: random.Random) -> Case:
    """Draw a recipe of flags that rules read, with likely and unlikely values."""
    backend = chance.choice(["megatron"] * 9 + ["transformers"])
    read = sorted({flag for rule in table.rows(backend, STACK.swift) for flag in rule.flags()})
    args: Case = {"num_train_epochs": 1} if backend == "megatron" else {}
    for flag in chance.sample(read, min(len(read), chance.randint(0, 12))):
        kind = type_of(backend, flag)
        likely: dict[str, list[Any]] = {
            "switch": [True, False],
            "whole": [1, 2, 8],
            "number": [0.5, 1e-6],
            "choice": list(kind.choices) if kind else [],
        }
        pool = likely[kind.type] if kind else [1, 2, 4, 8, 16]
        args[flag] = chance.choice(pool) if chance.random() < 0.8 else chance.choice(ODD)
    if chance.random() < 0.1:
        replaced: Case = {chance.choice(read): chance.choice([0, 1, True, "No"])}
        as_json = json.dumps(replaced)
        forms: list[Any] = [replaced, as_json, [as_json], f"{as_json[:-1]},}}", "null", "[1]", "{}"]
        args["megatron_extra_kwargs"] = chance.choice(forms)
    own = {name: chance.choice(words) for name, words in CHOICES.items()}
    return case_of(backend, args, own, chance.choice(GANGS))


def breaking(backend: str, rule: Rule) -> Case:
    """Return a case that breaks one rule, made from its own data."""
    args: Case = {"num_train_epochs": 1}
    for condition in rule.when:
        if condition.flag == TRAINS:
            args["tuner_type"] = "lora" if "adapter" in condition.words else "full"
        else:
            args[condition.flag] = holding(condition)
    match rule:
        case Multiple():
            args |= {name: 3 for name in (rule.factors[0], *rule.replica[:1])}
            if rule.total != "world":
                last = rule.factors[-1]  # of a replica: it divides the 16 processes
                args |= dict.fromkeys(rule.replica, 1) | {rule.total: 100}
                args[last] = 2 if last in rule.replica else 3
        case Range():
            args[rule.flag] = f"{rule.high}1" if rule.high else -1
        case Words():
            args[rule.flag] = ["unheard-of"]
        case Names():
            args[rule.flag] = ["a,b"]
        case Local():
            args[rule.flag] = ["hf://o/d@v"]
        case Order():
            args |= {rule.least: 3, rule.most: 2}
    own = {name: args.pop(OWN + name) for name in PLAIN if OWN + name in args}
    return case_of(backend, args, own)


def holding(condition: When) -> Any:
    """Return a value with which a condition holds; None where it must be missing."""
    match condition.test:
        case "on":
            return True
        case "off":
            return False
        case "is" | "has":
            return condition.words[0]
        case "isnt" if all(map(flag_types.is_number, condition.words)):
            return 64
        case "isnt":
            kind = type_of("megatron", condition.flag)
            choices = kind.choices if kind and kind.choices else ("other",)
            choices = ("sft",) if condition.flag == TASK else choices
            return next(word for word in choices if word not in condition.words)
        case "over":
            return float(condition.words[0]) + (0.5 if "ratio" in condition.flag else 1)
        case "under":
            bound = float(condition.words[0])
            if "ratio" in condition.flag:
                return 0.5 if bound > 0.5 else 0
            return bound - 1
        case "given":
            return 1
        case _:
            return None


def test_the_chart_says_what_the_launcher_says(judge: Path) -> None:
    chance = random.Random(5)
    cases = [drawn(chance) for _ in range(CASES)]
    reported: set[str] = set()
    for case, (said, args) in zip(cases, said_by_the_chart(cases, judge), strict=True):
        launcher = said_by_the_launcher(case, args)
        assert said == in_templates(launcher, case["backend"]), case
        reported |= {re.sub(r"[0-9.e+-]+|\"[^\"]*\"", "_", message) for message in said}
    assert len(reported) > 100, "the cases do not reach the rules any more"


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_every_rule_can_be_broken_and_is_reported(judge: Path, backend: str) -> None:
    rows = [rule for rule in table.rows(backend, STACK.swift) if not is_bound(rule)]
    cases = [breaking(backend, rule) for rule in rows]
    answers = said_by_the_chart(cases, judge)
    for rule, case, (chart, args) in zip(rows, cases, answers, strict=True):
        said = said_by_the_launcher(case, args)
        assert chart == in_templates(said, backend), case
        paths = [message.partition(": ")[0] for message in said if f"[{rule.id}]" in message]
        named = [*rule.flags(), *(w.flag.removeprefix("recipe.") for w in rule.when)]
        assert paths, (rule, said)
        assert {path.rpartition(".")[2] for path in paths} & {*named, "args"}, (rule, said)


def test_the_table_holds_every_rule_of_the_templates() -> None:
    backends = table_of(STACK.swift)["backends"]
    for backend in table.ROWS:
        rows = table.rows(backend, STACK.swift)
        held = [(r["kind"], r["id"]) for r in backends[backend]["rules"]]
        ours = [(type(rule).__name__, rule.id) for rule in rows if isinstance(rule, IN_TEMPLATES)]
        assert sorted(held) == sorted(ours)
        bounds = properties(f"{backend}Sizes")
        assert set(bounds) == {rule.flag for rule in rows if isinstance(rule, Range) and rule.whole}


SPELLINGS: list[Any] = ODD + yaml.safe_load("""
[maybe, "on", "TRUE", t, None, "0", "1", "-1", "5e-6", "1e999", "0x4", "04", "٤", " 4", "1.", "4 2",
 999999999999999, 1000000000000000, -1000000000000000, 1.0e+20, Adam, [1, 2], {a: 1}, "1\\n"]
""")
"""Values that each flag is given in turn."""


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_the_schema_refuses_the_values_that_the_launcher_refuses(
    backend: str, tmp_path: Path
) -> None:
    """One Helm process judges every value of one flag of each kind, bound and choice."""
    rows = {rule.flag: rule for rule in table.rows(backend, STACK.swift) if is_bound(rule)}
    names = {name for group in checked_groups(backend) for name in properties(group)}
    kinds_of = {name: kind for name in sorted(names) if (kind := type_of(backend, name))}
    unlike = {kind: name for name, kind in kinds_of.items()}  # one flag a kind
    flags = sorted({*unlike.values(), *rows})
    likely = [word for kind in unlike for word in kind.choices]
    values = [*SPELLINGS, *dict.fromkeys(likely)]
    cases = [{flag: value} for flag in flags for value in values if not isinstance(value, list)]
    refused = refused_by_the_schema(backend, cases, tmp_path)
    for number, case in enumerate(cases):
        [(flag, value)] = case.items()
        read = {flag: text_of(value)}
        wrong = flag_types.check_values(read, kinds_of)
        if flag in rows:
            wrong = rows[flag].judge(Facts(texts={**table.PLAIN, **read}, nodes=1, gpus=1))
        assert (number in refused) == bool(wrong or read[flag] == ""), (case, wrong)


def text_of(value: Any) -> str:
    """Return a scalar's text as the chart writes it into recipe.yaml."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and value == int(value) and abs(value) <= 2**53:
        return str(int(value))
    return str(value)


def refused_by_the_schema(backend: str, cases: list[Case], folder: Path) -> set[int]:
    """Return the positions of the arguments that Helm refuses by the chart's schema of a recipe."""
    (folder / "templates").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: judge\nversion: 0.0.1\n")
    recipe_schema = SCHEMA["properties"]["recipe"]
    schema = {name: SCHEMA[name] for name in ("$schema", "definitions")}
    schema["properties"] = {"recipes": {"items": recipe_schema}}
    (folder / "values.schema.json").write_text(json.dumps(schema))
    given: Case = {"backend": backend, "task": "rlhf", "model": "file:///m", "dataset": []}
    given |= {"reference": "online", "pairWeights": "equal"}
    given |= {"checkFlags": True, "swiftVersion": STACK.swift}
    recipes = [{**given, "args": args} for args in cases]
    with pytest.raises(Refused) as refusal:
        template({"recipes": recipes}, chart=folder)
    return {int(number) for number in re.findall(r"at '/recipes/(\d+)/", str(refusal.value))}


def test_an_unknown_ms_swift_is_judged_by_sizes_alone() -> None:
    schema = SCHEMA["properties"]["recipe"]
    judge = Draft7Validator({**schema, "definitions": SCHEMA["definitions"]})
    for check, flag, value, right in (
        (True, "optimizer", "adamw", False),
        (False, "optimizer", "adamw", True),
        (True, "tensor_model_parallel_size", 0, False),
        (False, "tensor_model_parallel_size", 0, False),
        (True, "optimizer", ["adam"], False),  # a flag of one value takes no list
        (True, "no_such_flag", [], True),
    ):
        given: Case = {"backend": "megatron", "task": "rlhf", "model": "file:///m", "dataset": []}
        given |= {"reference": "online", "export": "last", "pairWeights": "equal"}
        given |= {"checkFirstStep": True, "checkFlags": check, "swiftVersion": STACK.swift}
        document = {**given, "args": {flag: value}, "allowVersionChange": False}
        assert judge.is_valid(document) == right, (check, flag)
