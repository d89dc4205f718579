"""``values/a100-2node.yaml`` gives a reason for each difference to the run that it began from."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from launchers.yaml_file import read_yaml
from tests.chart.helm import ROOT

OURS = (ROOT / "values" / "a100-2node.yaml").read_text(encoding="utf-8")
SEED = read_yaml(ROOT / "values" / "baselines" / "seed-2node.yaml")
CLOSED = ("resources", "tolerations", "topology")
"""Keys whose content is one difference."""


def differences(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that the seed's file changes."""
    for key, value in values.items():
        if isinstance(value, Mapping) and key not in CLOSED:
            yield from differences(value)
        else:
            yield key


def is_explained(key: str, text: str) -> bool:
    """Return whether a comment names the key, stands in its line or directly above."""
    lines = text.splitlines()
    comments = " ".join(line.partition("#")[2] for line in lines)
    if re.search(rf"\b{key}\b", comments):
        return True
    for above, line in zip(lines, lines[1:], strict=False):
        if re.match(rf" *{key}:", line):
            return "#" in line or above.lstrip().startswith("#")
    return False


@pytest.mark.parametrize("key", sorted(set(differences(SEED))))
def test_each_difference_to_the_seed_has_its_reason(key: str) -> None:
    assert is_explained(key, OURS), f"say in values/a100-2node.yaml why {key} differs"


def test_a_key_without_a_comment_is_not_explained() -> None:
    text = "# why a is 1\na: 1\nb: 2\nc: 3  # because\n"
    assert [is_explained(key, text) for key in ("a", "b", "c", "d")] == [True, False, True, False]
