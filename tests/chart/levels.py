"""The table of chart/OPERATIONS.md: which values need which level of Pod Security."""

import re

import yaml

from tests.chart.helm import CHART, Document

LEVELS = ("restricted", "baseline", "privileged")
ROW = re.compile(r"^\| `(.+)` \| (restricted|baseline|privileged) \|$", re.MULTILINE)


def options() -> dict[str, tuple[str, Document]]:
    """Return level and values by the table's own words.

    A workspace of another kind comes without the claim of the values that it is laid over.
    """
    text = (CHART / "OPERATIONS.md").read_text(encoding="utf-8")
    found = {}
    for words, level in ROW.findall(text):
        values: Document = yaml.safe_load(words)
        if "workspace" in values:
            values["workspace"]["existingClaim"] = None
        found[words] = (level, values)
    return found
