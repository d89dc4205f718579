from pathlib import Path
from typing import Any

import pytest
import yaml

from launchers.config.recipe import parse
from launchers.config.recipe_file import load
from launchers.exits import Exit, LaunchError
from scripts.helm import ROOT

RECIPE: dict[str, Any] = {
    "backend": "megatron",
    "task": "rlhf",
    "model": "hf://o/m@main",
    "dataset": ["hf://o/d@main"],
    "args": {"lr": "5e-06"},
}


def test_values_are_words_lists_of_words_or_maps() -> None:
    args = {"a": 1, "b": True, "c": ["x", 2], "d": {"k": 1.5}, "e": None, "f": 5e-6}
    parsed = parse(RECIPE | {"args": args}).args
    assert parsed == {"a": "1", "b": "true", "c": ["x", "2"], "d": {"k": 1.5}, "f": "5e-06"}


def test_equal_recipes_have_equal_digests_in_any_order() -> None:
    one = parse(RECIPE | {"args": {"a": "1", "b": "2"}})
    other = parse(RECIPE | {"args": {"b": "2", "a": "1"}})
    assert one.digest == other.digest
    assert one.digest != parse(RECIPE | {"args": {"a": "1"}}).digest


def test_a_reference_in_every_step_leaves_the_digest_as_it_was() -> None:
    plain = parse(RECIPE)
    online, once = (parse(RECIPE | {"reference": each}) for each in ("online", "precomputed"))
    assert plain.digest == online.digest != once.digest
    assert (plain.reference, once.reference) == ("online", "precomputed")


def test_equal_weights_of_pairs_are_part_of_the_digest_where_they_have_an_effect() -> None:
    packed, rewards = {"packing": True}, {"packing": True, "rlhf_type": "rm"}
    for args, differ in ((packed, True), (rewards, False), ({}, False)):
        equal = parse(RECIPE | {"args": args})
        by_pack = parse(RECIPE | {"args": args, "pairWeights": "pack"})
        assert equal.weighs_pairs_equally == differ and not by_pack.weighs_pairs_equally
        assert (equal.digest != by_pack.digest) == differ
    assert not parse(RECIPE | {"task": "sft", "args": packed}).weighs_pairs_equally


def test_a_run_does_not_resume_with_packs_of_other_pairs() -> None:
    twice, once, auto = (parse(RECIPE | {"promptOnce": each}) for each in (False, True, "auto"))
    assert twice.identity != once.identity
    assert auto == parse(RECIPE) and auto.settled == (twice, once)
    assert [twice.settled, once.settled] == [(twice,), (once,)]


@pytest.mark.parametrize(
    ("task", "args", "preference", "has_reference"),
    [
        ("rlhf", {}, "dpo", True),
        ("rlhf", {"rlhf_type": "kto"}, "kto", True),
        ("rlhf", {"rlhf_type": ["rm"]}, "rm", False),
        ("sft", {"rlhf_type": "dpo"}, "", False),
    ],
)
def test_the_preference_method_is_that_of_rlhf_type_for_rlhf_alone(
    task: str, args: dict[str, Any], preference: str, has_reference: bool
) -> None:
    found = parse(RECIPE | {"task": task, "args": args})
    assert (found.preference, found.has_reference) == (preference, has_reference)


@pytest.mark.parametrize(
    ("key", "field", "default", "other"),
    [
        ("allowVersionChange", "allow_version_change", False, True),
        ("checkFirstStep", "check_first_step", True, False),
        ("swiftVersion", "swift_version", "", "4.6.0"),
    ],
)
def test_what_may_change_after_a_run_has_begun_is_no_part_of_the_digest(
    key: str, field: str, default: object, other: object
) -> None:
    plain, changed = parse(RECIPE), parse(RECIPE | {key: other})
    assert plain.digest == changed.digest
    assert (getattr(plain, field), getattr(changed, field)) == (default, other)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"backend": "deepspeed"}, "recipe.backend='deepspeed'; use megatron or transformers"),
        ({"task": None}, "recipe.task=None"),
        ({"reference": "once"}, "recipe.reference='once'; use online or precomputed"),
        ({"pairWeights": "token"}, "recipe.pairWeights='token'; use equal or pack"),
        ({"allowVersionChange": "true"}, "recipe.allowVersionChange='true'; use true or false"),
        ({"adapterReference": "no"}, "recipe.adapterReference='no'; use adapter or base"),
        ({"promptOnce": "once"}, "recipe.promptOnce='once'; use auto, true or false"),
        ({"checkFirstStep": None}, "recipe.checkFirstStep=None; use true or false"),
        ({"saveMinutes": -1}, "recipe.saveMinutes=-1; use minutes, e.g. 15"),
        ({"maxDroppedRows": 5}, "recipe.maxDroppedRows=5; use a share from 0 to 1"),
        ({"saveMinutes": True}, "recipe.saveMinutes=True"),
        ({"saveMinutes": float("nan")}, "recipe.saveMinutes=nan"),
        ({"swiftVersion": 4.6}, "recipe.swiftVersion=4.6; use a release of ms-swift"),
        ({"swiftVersion": "latest"}, "recipe.swiftVersion='latest'"),
        ({"modle": "x"}, "recipe.modle is not a key; did you mean model"),
        ({"tokens": 1}, "recipe.tokens is not a key; use adapterReference, allowVersionChange, "),
        ({"model": ""}, "recipe.model=''"),
        ({"dataset": []}, "recipe.dataset=[]"),
        ({"dataset": "x"}, "recipe.dataset='x'"),
        ({"args": ["x"]}, "recipe.args=['x']"),
        ({"args": {"a": [[1]]}}, "recipe.args.a=[1]"),
    ],
)
def test_a_wrong_recipe_is_refused_by_key(change: dict[str, Any], named: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        parse(RECIPE | change)
    assert named in str(refusal.value)
    assert refusal.value.code == Exit.CONFIG


@pytest.mark.parametrize(
    ("name", "says"), [("recipe.yaml", "set DPO_RECIPE"), ("", "Is a directory")]
)
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(LaunchError, match=says) as refusal:
        load(tmp_path / name)
    assert refusal.value.code == Exit.CONFIG


@pytest.mark.parametrize("content", [b"a: [", b"model: \xff\xfe", b"model: 2026-99-99"])
def test_a_file_that_can_t_be_decoded_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(LaunchError) as refusal:
        load(path)
    assert (refusal.value.code, refusal.value.id) == (Exit.CONFIG, "recipe-yaml")


def test_the_exported_checkpoint_is_part_of_the_digest_but_not_of_the_identity() -> None:
    last, best = parse(RECIPE), parse(RECIPE | {"export": "best"})
    assert last == parse(RECIPE | {"export": "last"})
    assert last.digest != best.digest  # all ranks export the same
    once = parse(RECIPE | {"reference": "precomputed"})
    assert last.digest == last.identity == best.identity == once.identity
    with pytest.raises(LaunchError, match="recipe.export='first'"):
        parse(RECIPE | {"export": "first"})


def test_a_values_file_gives_its_recipe_with_the_defaults_of_the_chart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = {key: RECIPE[key] for key in ("model", "dataset", "args")}
    values = {"nodes": 2, "recipe": {**own, "checkFlags": False, "task": None}, "kueue": {}}
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    caplog.set_level("INFO")
    assert load(path) == parse(RECIPE)
    (message,) = caplog.messages
    assert "unread=kueue,nodes,recipe.checkFlags" in message


@pytest.mark.parametrize("path", sorted((ROOT / "values").glob("*.yaml")), ids=lambda p: p.name)
def test_the_launcher_reads_the_recipe_of_each_values_file(path: Path) -> None:
    given = yaml.safe_load(path.read_text())
    if {"model", "dataset"} <= given.get("recipe", {}).keys():
        assert load(path).model == given["recipe"]["model"]


def test_a_misspelt_key_of_a_values_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text(yaml.safe_dump({"recipe": RECIPE | {"modell": "m"}}))
    with pytest.raises(LaunchError, match="recipe.modell is not a key"):
        load(path)
