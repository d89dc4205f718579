"""The words of a remedy, and the changes that they hold."""

from typing import Any

import pytest

from scripts.fix.change import Act
from scripts.fix.words import remedies, remedy

ARGS = "recipe.args"


def choices(line: str) -> tuple[bool, list[list[tuple[str, str, Any]]]]:
    found = remedy(line)
    assert found is not None
    made = [[(c.act.value, c.path, c.value) for c in choice] for choice in found.choices]
    return found.is_sure, made


@pytest.mark.parametrize(
    "line, changes",
    [
        ('nodes: "2" is a text; remove the quotes [value-quoted]', ("set", "nodes", 2)),
        (
            'a: "no" is a text; remove the quotes and write false [value-quoted]',
            ("set", "a", False),
        ),
        (
            "code.ref: a number (1 as YAML reads it), and a text is required; quote it as it was "
            "written (--set-string in a command) [number-unquoted]",
            ("quote", "code.ref", None),
        ),
        (
            'image.pullPolicy: "always" is not one of its choices; use Always (one of Always, '
            "Never) [value-choice]",
            ("set", "image.pullPolicy", "Always"),
        ),
        (
            'a: "b c" is a text, where a list is required; use a list, such as ["b c"] '
            "[value-type]",
            ("set", "a", ["b c"]),
        ),
        (
            f"{ARGS}.save_interval: ms-swift 4.4.1 has no such flag; use save_steps [flag-renamed]",
            ("move", f"{ARGS}.save_interval", f"{ARGS}.save_steps"),
        ),
    ],
)
def test_a_form_is_corrected_without_a_question(line: str, changes: tuple[str, str, Any]) -> None:
    assert choices(line) == (True, [[changes]])


@pytest.mark.parametrize(
    "line",
    [
        f"{ARGS}.distributed_timeout_minutes: no such flag; use ddp_timeout (in seconds) "
        "[flag-renamed]",
        f"{ARGS}.loss_type: ipo ends in its first step; use sigmoid [ipo-padded]",
        "nodez: not a key of this chart; the nearest is nodes [key-unknown]",
        f"{ARGS}.output_dir: set by the launcher; remove it [flag-owned]",
        'a.size: "010" is a text; remove the quotes [value-quoted]',
    ],
    ids=["another unit", "another loss", "a guess", "a wish is lost", "octal or decimal"],
)
def test_what_may_change_the_meaning_is_asked(line: str) -> None:
    is_sure, made = choices(line)
    assert not is_sure and made


@pytest.mark.parametrize(
    "line, wanted",
    [
        (
            f"{ARGS}.group_by_length: cannot be combined with packing, which fills rows itself; "
            "remove one [x]",
            [[("remove", f"{ARGS}.group_by_length", None)], [("remove", f"{ARGS}.packing", None)]],
        ),
        (
            f"{ARGS}.x: requires optimizer adam, not sgd; use adam or remove this flag [x]",
            [[("set", f"{ARGS}.optimizer", "adam")], [("remove", f"{ARGS}.x", None)]],
        ),
        (
            f"{ARGS}.global_batch_size: 100 is not a multiple of 8; use a multiple of 8 [x]",
            [
                [("set", f"{ARGS}.global_batch_size", 96)],
                [("set", f"{ARGS}.global_batch_size", 104)],
            ],
        ),
        (
            "localCheckpoints: a; set recipe.backend: megatron and recipe.saving: background, or "
            "remove it [x]",
            [
                [("set", "recipe.backend", "megatron"), ("set", "recipe.saving", "background")],
                [("remove", "localCheckpoints", None)],
            ],
        ),
        (
            "kueue.topology.key: has no effect; set mode: required or preferred, or remove the key "
            "[x]",
            [
                [("set", "kueue.topology.mode", "required")],
                [("set", "kueue.topology.mode", "preferred")],
                [("remove", "kueue.topology.key", None)],
            ],
        ),
    ],
)
def test_each_alternative_is_a_choice(line: str, wanted: list[list[tuple[str, str, Any]]]) -> None:
    assert choices(line) == (False, wanted)


def test_a_remedy_of_a_user_s_text_is_no_remedy() -> None:
    found = remedy('a: "x; remove it" is not accepted; use a name, such as b [value-form]')
    assert found is not None and [each[0].act for each in found.choices] == [Act.ASK]


def test_a_name_is_that_of_the_label_and_not_of_all_labels() -> None:
    line = 'podLabels: "a.b/c" is set by the chart; remove it (for queue set a.b) [label-owned]'
    assert choices(line)[1] == [[("remove", "podLabels.a.b/c", None)]]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("podAnnotations: a; remove it and put it into a Secret [secret-name]", {"podAnnotations"}),
        (
            "monitoring.events: the rights of restarts.agentImage, and the launcher's code could "
            "patch every pod; set one of them [agent-events]",
            {"monitoring.events", "restarts.agentImage"},
        ),
        (
            "extraVolumeMounts[0].name: a volume of the chart; remove the mount [mount-token]",
            {"extraVolumeMounts[0]"},
        ),
        ("code.url: empty, but code.ref is set; remove it [code-url-missing]", {"code.ref"}),
        (
            "priorityClass: no key; use priorityClassName, or kueue.priorityClass for the place in "
            "the queue [key-unknown]",
            {"priorityClass", "priorityClassName", "kueue.priorityClass"},
        ),
    ],
)
def test_only_what_the_words_mean_is_removed(line: str, wanted: set[str]) -> None:
    _, made = choices(line)
    assert {path for each in made for _, path, _ in each} == wanted
    assert (made[0][0][0] == "ask") is ("secret" in line)


def test_a_setting_elsewhere_takes_the_place_of_the_refused_one() -> None:
    line = "extraEnv.NCCL_DEBUG: no level; use debug.ncclDebug: INFO [env-nccl-debug]"
    both = [("remove", "extraEnv.NCCL_DEBUG", None), ("set", "debug.ncclDebug", "INFO")]
    assert choices(line)[1] == [both]


def test_lines_without_a_path_have_no_remedy() -> None:
    assert remedies(["the image has launcher 1; install 2 [launcher-version]", "not a line"]) == []
