"""The page of all ids of refusals by the place that refuses them, written from the cases."""

from __future__ import annotations

import textwrap
from collections import Counter
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

Ids of the {cases} wrong configurations of [tests/refusals](../../tests/refusals), each under every
place that refuses it; a number after an id is that of its cases. `make golden` writes this page.
"""


def text(cases: Sequence[Case]) -> str:
    """Return the page of these cases: a section for each place, in the order of the places."""
    sections = [HEADER.format(cases=len(cases))]
    for place in get_args(Where):
        counts = Counter(case.id for case in cases if case.where == place)
        # ~ is the space between an id and its number, where no line ends
        ids = [f"`{id}`" + (f"~{n}" if n > 1 else "") for id, n in sorted(counts.items())]
        lines = textwrap.fill(", ".join(ids), 130, break_on_hyphens=False).replace("~", " ")
        sections.append(f"## {PLACES[place]}: {counts.total()}\n{lines}\n")
    return "\n".join(sections)
