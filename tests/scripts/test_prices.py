from pathlib import Path

import pytest

from scripts import prices
from scripts.prices import NONE
from scripts.problem import Problem


def test_a_table_is_read_where_the_variable_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(prices.FILE, raising=False)
    assert prices.read() == NONE and NONE.of("h200", 1.0) == ""
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\ngpuHour: {h200: 3, a100-80g: 1.25}\n")
    monkeypatch.setenv(prices.FILE, str(file))
    assert prices.read().of("a100-80g", 10.0) == "12.50 EUR"
    assert prices.read().of("h100-80g", 10.0) == "" == prices.read().of(None, 10.0)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "not a table"),
        ("[1]", "not a table"),
        ("{", "cannot be read"),
        ("currency: EUR", "not a table"),
        ("currency: ''\ngpuHour: {h200: 3}", "must be a text"),
        ("currency: 1\ngpuHour: {h200: 3}", "must be a text"),
        ("currency: EUR\ngpuHour: [h200]", "gpuHour a map"),
        ("currency: EUR\ngpuHour: {h300: 3}", "gpuHour.h300 is not known; use one of"),
        ("currency: EUR\ngpuHour: {h200: -1}", "use a number"),
        ("currency: EUR\ngpuHour: {h200: .inf}", "use a number"),
        ("currency: EUR\ngpuHour: {h200: .nan}", "use a number"),
        ("currency: EUR\ngpuHour: {h200: true}", "use a number"),
        ("currency: EUR\ngpuHour: {h200: 3}\nwatts: {h200: -650}", "watts.h200: -650; use"),
        ("currency: EUR\ngpuHour: {h200: 3}\nwatts: 650", "watts a map"),
    ],
)
def test_another_form_is_refused(text: str, named: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(Problem, match=named):
        prices.read(str(file))
    with pytest.raises(Problem, match="cannot be read"):
        prices.read(str(tmp_path))
