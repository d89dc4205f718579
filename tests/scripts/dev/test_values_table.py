import re

from scripts.dev.values_table import CHART, TARGET, rows, table

TEXT = (CHART / "values.yaml").read_text(encoding="utf-8")


def test_the_table_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == table(TEXT), "run `make values-table`"


def test_every_sentence_of_the_values_is_in_the_table() -> None:
    said = re.findall(r"^ *# -- (.+)$", TEXT, re.MULTILINE)
    assert [row.says for row in rows(TEXT)] == said


def test_keys_are_grouped_by_their_first_part() -> None:
    page = table("# -- Nodes.\nn: 2\na:\n  # -- One | two.\n  b: ''\n  # -- A map.\n  c: {d: 1}\n")
    assert "| `n` | `2` | Nodes. |" in page.partition("## a")[0]
    assert '| `a.b` | `""` | One \\| two. |\n| `a.c` | `{"d": 1}` | A map. |' in page
