"""READMEs: the files, commands and targets that they name exist, and each is short."""

import re
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import pytest
import typer

from scripts import cli
from scripts.helm import ROOT

LISTED = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
LISTING = subprocess.run(LISTED, cwd=ROOT, capture_output=True, text=True, check=True).stdout
FILES = {path for path in LISTING.splitlines() if (ROOT / path).exists()}
PAGES = sorted(path for path in FILES if path.endswith(".md"))
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):.* ## ", Path(ROOT, "Makefile").read_text(), re.M))
VERBS: dict[str, typer.core.TyperCommand] = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)")
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
LIBRARY = "chart/charts/library"
FOUND_FROM = (
    "",
    "launchers",
    "scripts",
    "chart",
    "tests",
    "values",
    LIBRARY,
    f"{LIBRARY}/templates",
)
"""Folders to which a path in a README may be relative, in addition to the README's own."""
PATH = re.compile(r"(?:[a-z_]+/)+[a-z_0-9]+\.(?:py|tpl)")
"""A source file with its folder; upstream's begin with the name of a package."""
NAMED = re.compile(r"(?:[\w.-]+/)*[a-z0-9_-]+\.(?:py|tpl|md|sh|yaml)|(?:[\w.-]+/)*[A-Z]+\.md")
"""Any file of these kinds, as READMEs name them; a placeholder in capitals is none."""
WRITTEN = {"recipe.yaml", "CONTENTS.md", "notes.md"}
"""Files that commands write: in a ConfigMap, in the chart, in a bundle and for a release."""
UPSTREAM = ("swift/", "megatron/", "mcore_bridge/", "transformers/", "transformer_engine/")
SHORT = ("README", "HOSTS")
"""Begin the names of pages that are short."""
LONGEST = 80
"""Lines that such a page may have."""
LONGEST_FRONT_PAGE = 120
"""The same of the front page, which has its diagram, installation and figures."""
WIDEST = 130
"""Characters that a line of a README may have."""


def blocks(text: str) -> list[list[str]]:
    """Return the words of each line of the code blocks without a language."""
    found = [each["body"] for each in FENCE.finditer(text) if not each["language"]]
    return [words for line in "\n".join(found).splitlines() if (words := _words(line))]


SECTION = re.compile(r'([\w/]*[A-Z]{3,}\.md)[`)]*,\s(?:#\s)?"([^"\n]+)"')
"""A page and a section of it, as comments and docstrings refer to them."""


def commands(text: str) -> list[list[str]]:
    """Return the words of the commands in code blocks and between backquotes.

    >>> commands("`make test`, `a.py`")
    [['make', 'test'], ['a.py']]
    """
    quoted = CODE.findall(FENCE.sub("", text))
    return [*blocks(text), *(words for line in quoted if (words := _words(line)))]


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a quote in prose
        return []
    return words[: words.index("&&")] if "&&" in words else words


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    folder = ROOT / page
    links = [link for link in LINK.findall(folder.read_text()) if "://" not in link]
    assert [link for link in links if not (folder.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_to_a_section_lead_to_a_heading(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s:]*)#([\w-]+)\)", text)
    targets = [((ROOT / page).parent / path if path else ROOT / page, to) for path, to in links]
    assert [(str(path), to) for path, to in targets if to not in anchors(path)] == []


def missing(page: str, named: Iterable[str]) -> list[str]:
    """Return the names that lead to no file from a page or a folder of ``FOUND_FROM``."""
    bases = (PurePosixPath(page).parent, *FOUND_FROM)
    return [n for n in named if not any(str(PurePosixPath(base, n)) in FILES for base in bases)]


@pytest.mark.parametrize("page", PAGES)
def test_source_files_that_are_named_exist(page: str) -> None:
    named = [n for n in CODE.findall((ROOT / page).read_text()) if PATH.fullmatch(n)]
    assert missing(page, (name for name in named if not name.startswith(UPSTREAM))) == []


@pytest.mark.parametrize("page", [p for p in PAGES if PurePosixPath(p).name.startswith("README")])
def test_files_that_a_readme_names_exist(page: str) -> None:
    named = {n for n in CODE.findall((ROOT / page).read_text()) if NAMED.fullmatch(n)} - WRITTEN
    assert missing(page, sorted(named)) == []


@pytest.mark.parametrize("page", PAGES)
def test_modules_that_are_run_exist(page: str) -> None:
    run = [
        words[words.index("-m") + 1].replace(".", "/")
        for words in commands((ROOT / page).read_text())
        if words[0] in ("python", "python3") and "-m" in words
    ]
    own = [module for module in run if module.startswith(("launchers", "scripts", "tests"))]
    assert [each for each in own if not {f"{each}.py", f"{each}/__main__.py"} & FILES] == []


def test_no_target_is_taken_for_a_file() -> None:
    phony = re.findall(r"^\.PHONY: (.*)$", Path(ROOT, "Makefile").read_text(), re.M)
    assert set(" ".join(phony).split()) == TARGETS


@pytest.mark.parametrize("page", PAGES)
def test_make_has_each_target(page: str) -> None:
    asked = {
        word
        for words in commands((ROOT / page).read_text())
        if words[0] == "make"
        for word in words[1:]
        if "=" not in word
    }
    assert asked - TARGETS == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_command_has_each_verb_and_option(page: str) -> None:
    for words in commands((ROOT / page).read_text()):
        if words[0] == "megatron-dpo" and len(words) > 1 and words[1][0] not in "-.*":
            command = VERBS[words[1]]
            options = {o for each in command.params for o in (*each.opts, *each.secondary_opts)}
            asked = {w.partition("=")[0] for w in words[2:] if w.startswith("-") and w != "--"}
            assert asked - options - {"--help"} == set(), words


@pytest.mark.parametrize("page", [p for p in PAGES if PurePosixPath(p).name.startswith(SHORT)])
def test_a_readme_is_short(page: str) -> None:
    longest = LONGEST if "/" in page else LONGEST_FRONT_PAGE
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= longest
    assert [line for line in lines if len(line) > WIDEST] == []


@pytest.mark.parametrize("page", ["README", "launchers/HOSTS"])
def test_both_languages_have_the_same_sections_commands_and_rows(page: str) -> None:
    names = [PurePosixPath(f"{page}{suffix}") for suffix in (".md", ".zh.md")]
    english, chinese = ((ROOT / name).read_text() for name in names)
    for pattern in (r"^#+ ", r"^\|", r"^- ", r"^```"):
        assert len(re.findall(pattern, english, re.M)) == len(re.findall(pattern, chinese, re.M))
    assert blocks(english) == blocks(chinese)
    links = [set(LINK.findall(text)) - {name.name for name in names} for text in (english, chinese)]
    assert links[0] == links[1]
    figures = [set(re.findall(r"\d[\d,.]*\d", text)) for text in (english, chinese)]
    assert figures[0] == figures[1]


def test_sections_that_sources_refer_to_exist() -> None:
    headings = {
        page: set(re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.M)) for page in PAGES
    }
    missing = []
    for path in sorted(FILES):
        if path.endswith((".py", ".tpl", ".yaml", ".md")):
            for page, section in SECTION.findall((ROOT / path).read_text(encoding="utf-8")):
                named = [found for each, found in headings.items() if each.endswith(page)]
                if not any(each.startswith(section) for found in named for each in found):
                    missing.append(f"{path}: {page}, {section}")
    assert missing == []
