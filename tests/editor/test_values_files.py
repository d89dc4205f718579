"""Values files in an editor: errors, keys, flags and their descriptions."""

import asyncio
from pathlib import Path

import pytest

from launchers.rules.table import SWIFT
from launchers.yaml_file import read_yaml
from scripts.dev.flags import DESCRIPTIONS
from scripts.values.flags import table_of
from tests.chart.test_values_files import FILES
from tests.editor.language_server import ROOT, SERVER, Editor
from tests.fuzz.verdict import FORMS

pytestmark = pytest.mark.skipif(
    not SERVER.exists(), reason="no npm: `make setup` installs the language server with it"
)
FIRST = "# yaml-language-server: $schema=../chart/values.schema.json\n"
MINE = ROOT / "values" / "mine.yaml"
"""A file that does not exist: the editor has not saved it yet."""
DESCRIBED: dict[str, str] = read_yaml(DESCRIPTIONS)


def complaints(texts: dict[Path, str]) -> dict[str, list[str]]:
    """Return what the server says about each text, by the file's name."""

    async def open_all() -> dict[str, list[str]]:
        async with Editor() as editor:
            return {
                str(path.relative_to(ROOT)): await editor.diagnostics(path, text)
                for path, text in texts.items()
            }

    return asyncio.run(open_all())


def offered(text: str) -> dict[str, str]:
    """Return what the server offers at the end of a values file: label to description."""

    async def ask() -> dict[str, str]:
        async with Editor() as editor:
            return await editor.complete(MINE, FIRST + text)

    return asyncio.run(ask())


def test_no_values_file_of_this_checkout_is_complained_about() -> None:
    found = complaints({path: path.read_text(encoding="utf-8") for path in FILES})
    assert len(found) == len(FILES)
    assert {name: said for name, said in found.items() if said} == {}


MISTAKES = {
    MINE.with_stem(f"mine-{number}"): f"{FIRST}\n{text}\n"
    for number, text in enumerate(
        [
            "nodes: two",
            "kueue: {topology: {mod: none}}",
            "recipe: {args: {tuner_type: lorra}}",
            "recipe: {backend: megatron, args: {global_batch_size: 0}}",
            "code: {ref: 1234567}",
            "gpuPerNode: 8",
            "recipe: {learning_rate: 1e-6}",
            "sharedMemory: {sizeLimit: 64gb}",
            "kueue: {queue: Team_A}",
            "priorityClassName: true",
            "image: {pullPolicy: always}",
            "extraVolumes: [{name: a, nfs: {server: a, path: x}}]",
        ]
    )
}


def test_a_mistake_is_marked_in_its_line_and_in_words() -> None:
    found = complaints(MISTAKES)
    assert len(found) == len(MISTAKES)
    for text, said in zip(MISTAKES.values(), found.values(), strict=True):
        assert said and all(each.startswith("3: ") for each in said), text
        assert [each for each in said if FORMS.search(each)] == [], text


@pytest.mark.parametrize("backend", ["megatron", "transformers"])
def test_every_flag_that_a_user_may_set_is_offered_with_its_description(backend: str) -> None:
    labels = offered(f"recipe:\n  backend: {backend}\n  args:\n    ")
    one = table_of(SWIFT)["backends"][backend]
    others = {*one["launcherOwned"], *one["secret"]}
    users = {*one["flags"]["common"], *one["flags"]["rlhf"]} - others
    assert users - labels.keys() == set()
    assert not others & labels.keys()
    described = users & DESCRIBED.keys()
    assert {n: labels[n] for n in described} == {n: DESCRIBED[n] for n in described}


def test_every_key_is_offered_with_its_description() -> None:
    keys = read_yaml(ROOT / "chart/values.yaml")
    assert {name for name, text in offered("").items() if text} >= keys.keys()
    below = offered("kueue:\n  ")
    assert below.keys() == keys["kueue"].keys() and all(below.values())


def test_the_choices_of_a_flag_are_offered() -> None:
    assert {"lora", "full"} <= offered("recipe:\n  args:\n    tuner_type: ").keys()


def test_what_a_flag_is_for_is_shown_at_the_pointer() -> None:
    async def ask() -> str:
        async with Editor() as editor:
            return await editor.hover(MINE, f"{FIRST}recipe:\n  args:\n    beta: 0.1\n", "beta")

    assert DESCRIBED["beta"] in asyncio.run(ask())
