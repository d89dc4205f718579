"""The arithmetic of the parallel sizes, and that the chart says the same in the same words."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.parallel import DENSE, EXPERT, RULES, Rule, check, flags_of
from tests.chart.helm import Document, Refused, merged, template

MEGATRON = RULES["megatron"]
DEFAULTS = {name: "1" for name in flags_of(MEGATRON)} | {"global_batch_size": "16"}
TP, PP, CP = DENSE
EP = EXPERT[1]

GRID = [
    *({TP: tp, PP: pp, EP: ep} for tp, pp, ep in product(("1", "3", "4"), ("1", "2"), ("8", "12"))),
    *({"global_batch_size": gbs, TP: tp} for gbs, tp in product(("8", "100", "128"), ("1", "2"))),
    *({"global_batch_size": gbs, "micro_batch_size": "3"} for gbs in ("48", "49")),
    *({TP: size} for size in ("0", "x", "", "2.5", "-1", "1000000", "999999", "007")),
    {TP: "32", "global_batch_size": "7"},
    {CP: "16", PP: "x", EP: "0"},
]  # fmt: skip


@pytest.mark.parametrize("sizes", GRID, ids=lambda sizes: ",".join(sizes.values()))
def test_the_chart_says_the_same(sizes: dict[str, str]) -> None:
    expected = check(DEFAULTS | sizes, MEGATRON, nodes=2, gpus=8)
    values: Document = {"recipe": {"args": sizes}}
    try:
        template(merged(values))
        told = []
    except Refused as refused:
        told = re.findall(r"^- (.*)$", str(refused), re.MULTILINE)
    assert told == expected


def test_the_two_node_run_fits() -> None:
    sizes = {TP: "4", PP: "2", EP: "8", "global_batch_size": "128"}
    assert check(DEFAULTS | sizes, MEGATRON, nodes=2, gpus=8) == []


def test_transformers_has_no_rules() -> None:
    assert check({}, RULES["transformers"], nodes=3, gpus=7) == []


@given(tp=st.integers(1, 16), pp=st.integers(1, 8), nodes=st.integers(1, 8), mbs=st.integers(1, 4))
def test_a_product_of_the_sizes_always_fits(tp: int, pp: int, nodes: int, mbs: int) -> None:
    sizes = {TP: tp, PP: pp, "micro_batch_size": mbs, "global_batch_size": mbs * nodes * 5}
    texts = DEFAULTS | {name: str(size) for name, size in sizes.items()}
    assert check(texts, MEGATRON, nodes=nodes, gpus=tp * pp) == []


@given(total=st.integers(1, 999), factor=st.integers(1, 999))
def test_a_flag_must_be_a_multiple(total: int, factor: int) -> None:
    rule = Rule(total="a", factors=("b",), replica=("c",))
    found = check({"a": str(total), "b": str(factor), "c": "1"}, [rule], nodes=1, gpus=1)
    assert bool(found) == (total % factor != 0)
