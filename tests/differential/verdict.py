"""Verdicts of both sides on one run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launchers.config.flag_value import Value
from launchers.config.recipe import parse
from launchers.flags.command_line import flatten
from launchers.plan import model_config
from launchers.rules import table
from tests.differential.asked import Oracle
from tests.differential.layouts import Run

OURS = {
    "rlhf_type": "dpo",
    "dataset": "data.jsonl",
    "template": "qwen3_nothinking",
    "output_dir": "out",
    "add_version": "false",
    "check_model": "false",
}
"""Flags that the launcher or every recipe gives."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Refusals of each side; empty texts for none."""

    ours: tuple[str, ...]
    theirs: str


def args_of(run: Run) -> Mapping[str, Value]:
    document: dict[str, Any] = {"backend": "megatron", "task": "rlhf", "args": run.args}
    return parse({**document, "model": "hf://o/m@v", "dataset": ["hf://o/d@v"]}).args


def judge(run: Run, oracle: Oracle) -> Verdict:
    args = args_of(run)
    ours = table.check(
        args,
        table.Context(
            model_config=model_config.parse_config(run.config),
            nodes=run.nodes,
            gpus_per_node=run.gpus,
            backend="megatron",
            own={**table.PLAIN, "recipe.pairWeights": "pack"},  # upstream's
            core=oracle.versions["megatron-core"],
            swift=oracle.versions["ms-swift"],
        ),
    )
    argv = flatten({**OURS, "model_type": run.config["model_type"], **args})
    theirs = oracle.refusal(world=run.nodes * run.gpus, config=run.config, argv=argv)
    return Verdict(ours=tuple(map(str, ours)), theirs=theirs)
