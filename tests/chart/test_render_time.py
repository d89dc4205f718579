"""The time of a render: GitOps controllers render every few minutes, editors with every save."""

import os
import subprocess
import time

import pytest

from tests.chart.helm import CHART, KUBERNETES, ROOT, require

LIMIT = 0.5
"""Seconds of processor time; 0.17 to 0.28 measured alone; Helm without a chart takes 0.06."""
TRIES = 8
"""Renders at most: other work on the machine slows one down, and no render is faster than it is."""


def processor_time(program: str) -> float:
    """Render once; return the user and system time of the process, seconds."""
    before = os.times()
    values = ROOT / "values" / "a100-2node.yaml"
    command = [program, "template", "run", str(CHART), "--kube-version", KUBERNETES]
    subprocess.run([*command, "-f", str(values)], check=True, capture_output=True, timeout=60)
    after = os.times()
    spent = after.children_user - before.children_user
    return spent + after.children_system - before.children_system


@pytest.mark.parametrize("helm", ["helm", "helm3"])
def test_the_users_file_renders_in_half_a_second_of_processor_time(helm: str) -> None:
    program = require(helm)
    least = float("inf")
    for _ in range(TRIES):
        least = min(least, processor_time(program))
        if least < LIMIT:
            return
        time.sleep(1)
    assert least < LIMIT
