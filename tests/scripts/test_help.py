"""Help and completion: each verb has one example that parses; names of runs, verbs and files."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from scripts import cli
from scripts.doctor.api import Api
from tests.scripts.kubeconfig import select
from tests.scripts.observe.fixtures import JOBSETS
from tests.scripts.observe.server import Cluster

GROUP = typer.main.get_command(cli.app)
VERBS = sorted(GROUP.commands)  # type: ignore[attr-defined]
EXAMPLE = re.compile(r"Example: (megatron-dpo .*?)(?:\. Exit|$)")


def completed(*words: str) -> list[str]:
    """Completions that bash gets for the last word."""
    environment = {
        "_MEGATRON_DPO_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["megatron-dpo", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = CliRunner().invoke(cli.app, [], prog_name="megatron-dpo", env=environment)
    return done.stdout.split()


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_one_example_and_its_options_are_those_of_the_verb(verb: str) -> None:
    command = GROUP.commands[verb]  # type: ignore[attr-defined]
    text = f"{command.help or ''}\n{command.epilog or ''}"
    (example,) = [found for line in text.splitlines() for found in EXAMPLE.findall(line)]
    program, name, *words = shlex.split(example)
    assert (program, name) == ("megatron-dpo", verb)
    with command.make_context(verb, words) as context:
        assert context.command is command


def test_verbs_are_completed() -> None:
    assert {"status", "stop", "submit"} <= set(completed("s"))
    assert "why" not in completed("s")


def test_names_of_runs_are_completed_in_the_namespace(api: Api, cluster: Cluster) -> None:
    made = dict(cluster.objects[f"{JOBSETS}/dpo"])
    cluster.put(JOBSETS, {**made, "metadata": {**made["metadata"], "name": "other"}})
    assert completed("why", "") == ["dpo", "other"]
    assert completed("status", "o") == ["other"]
    assert completed("logs", "-n", "vision", "") == []


def test_without_a_cluster_nothing_is_completed_and_nothing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    select(tmp_path / "none", monkeypatch)
    assert completed("why", "") == []
