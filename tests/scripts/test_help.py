"""Help: each verb has one example that parses."""

import re
import shlex

import pytest
import typer

from scripts import cli

GROUP = typer.main.get_command(cli.app)
VERBS = sorted(GROUP.commands)  # type: ignore[attr-defined]
EXAMPLE = re.compile(r"Example: (megatron-dpo .*?)(?:\. Exit|$)")


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_one_example_and_its_options_are_those_of_the_verb(verb: str) -> None:
    command = GROUP.commands[verb]  # type: ignore[attr-defined]
    text = f"{command.help or ''}\n{command.epilog or ''}"
    (example,) = [found for line in text.splitlines() for found in EXAMPLE.findall(line)]
    program, name, *words = shlex.split(example)
    assert (program, name) == ("megatron-dpo", verb)
    with command.make_context(verb, words) as context:
        assert context.command is command
