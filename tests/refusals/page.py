"""The page of all ids of refusals by the place that refuses them, written from the cases."""

import textwrap
from collections.abc import Sequence
from typing import get_args

from tests.chart.helm import ROOT
from tests.refusals.cases import Case, Where

FILE = ROOT / "scripts" / "values" / "REFUSALS.md"
PLACES = {
    "schema": "Helm, by the schema",
    "chart": "Helm, by the templates",
    "plan": "`megatron-dpo plan`",
    "launcher": "The launcher in the pods",
}
HEADER = """\
# Refusals by place

Each id of [tests/refusals](../../tests/refusals), under every place that refuses a case of it.
`make golden` writes this page, `make refusals` prints the cases and their numbers.
"""


def text(cases: Sequence[Case]) -> str:
    sections = [HEADER]
    for place in get_args(Where):
        ids = sorted({f"`{case.id}`" for case in cases if case.where == place})
        lines = textwrap.fill(", ".join(ids), 130, break_on_hyphens=False)
        sections.append(f"## {PLACES[place]}\n{lines}\n")
    return "\n".join(sections)
