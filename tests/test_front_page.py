"""The front page: its values file works, and its screens are what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from scripts.helm import ROOT
from tests.chart.helm import call
from tests.scripts.plan.test_command import screen
from tests.scripts.status.test_screens import GOLDEN
from tests.test_readmes import FENCE

ENGLISH, CHINESE = (
    ROOT.joinpath(name).read_text("utf-8") for name in ("README.md", "README.zh.md")
)
LEFT_OUT = "..."
MOST_WORDS = 600
"""Words of its prose, without screens and tables: two minutes to read."""


def fenced(text: str, language: str) -> list[str]:
    return [each["body"] for each in FENCE.finditer(text) if each["language"] == language]


def screen_of(verb: str) -> tuple[list[str], str]:
    """Return the words of the command with this verb, and what the front page shows of it."""
    [block] = fenced(ENGLISH, "text")
    screens = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)+)", block, re.M)
    [(command, shown)] = [each for each in screens if f" {verb} " in each[0]]
    return shlex.split(command), shown


def is_shortened(shown: str, output: str) -> bool:
    r"""Return whether a screen is the output with lines left out only where it says so.

    >>> is_shortened("a\n...\n", "a\nb\n"), is_shortened("a\nc\n", "a\nb\nc\n")
    (True, False)
    """
    lines = [r"(?:.*\n)+?" if x == LEFT_OUT else re.escape(f"{x}\n") for x in shown.splitlines()]
    whole = "".join(f"{line.rstrip()}\n" for line in output.strip().splitlines())
    return re.fullmatch("".join(lines), whole) is not None


@pytest.fixture
def values(tmp_path: Path) -> Path:
    [text] = fenced(ENGLISH, "yaml")
    assert len(text.splitlines()) == 12
    file = tmp_path / "dpo.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def with_path(words: list[str], values: Path) -> list[str]:
    return [str(values) if word == values.name else word for word in words]


def test_its_values_are_accepted_and_the_plan_is_the_one_shown(values: Path) -> None:
    command, shown = screen_of("plan")
    code, output = screen(*with_path(command[2:], values))
    assert code == 0, output
    assert is_shortened(shown, output)


def test_the_notes_of_its_installation_are_those_shown(values: Path) -> None:
    command, shown = screen_of("install")
    done = call(*with_path(command[1:], values), "--dry-run=client")
    assert done.returncode == 0, done.stderr
    assert is_shortened(shown, "".join(done.stdout.partition("NOTES:\n")[1:]))


@pytest.mark.parametrize("verb", ["why", "status"])
def test_its_recorded_screens_are_those_of_the_verbs(verb: str) -> None:
    text = (GOLDEN / "plain" / f"{verb}.txt").read_text(encoding="utf-8")
    first = re.split(r"(?m)^(?=run dpo in )", text)[verb == "why"]
    assert is_shortened(screen_of(verb)[1], first)


def test_both_languages_show_the_same_values_and_screens() -> None:
    for language in ("yaml", "text"):
        assert fenced(ENGLISH, language) == fenced(CHINESE, language) != []


def test_it_is_read_in_two_minutes() -> None:
    prose = [x for x in FENCE.sub("", ENGLISH).splitlines() if not x.startswith("|")]
    assert len(" ".join(prose).split()) <= MOST_WORDS
