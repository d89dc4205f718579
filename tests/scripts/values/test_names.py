"""What replaces keys of other charts and variables of other launchers is a key of this chart."""

import re

from launchers.rules.table import SWIFT
from scripts.values import names, schema
from scripts.values.flags import table_of

KEY = re.compile(r"(?<![\w./-])([a-z][A-Za-z]+(?:\.[a-z][A-Za-z_]+)*)(?![\w/-])")
LEVELS = schema.maps(schema.schema())
ALL = {f"{level}.{key}".lstrip(".") for level, keys in LEVELS.items() for key in keys}
OF_OTHERS = ("gcsfuse", "podSecurityContext", "podSpec", "workload")
"""Dotted words of advice begin with these where they are of another program, or Kubernetes'."""


def test_the_advice_names_keys_that_exist() -> None:
    backends = table_of(SWIFT)["backends"].values()
    flags = {flag for each in backends for some in each["flags"].values() for flag in some}
    known = ALL | {f"recipe.args.{flag}" for flag in flags}
    advice = [(name, says) for of in names.renames().values() for name, says in of.items()]
    assert len(advice) > 70
    for name, says in advice:
        dotted = {key for key in KEY.findall(says) if "." in key and not key.startswith(OF_OTHERS)}
        assert dotted <= known, name


def test_no_key_of_this_chart_is_taken_for_one_of_another() -> None:
    taken = [name for kind, of in names.renames().items() if kind != "variables" for name in of]
    assert [name for name in taken if name in ALL and not name.partition(".")[2]] == []


def test_a_key_of_another_chart_is_found_in_any_spelling() -> None:
    assert names.elsewhere("", "gcs_mounts") == names.elsewhere("", "gcsMounts") != ""


def test_a_path_without_its_dots_is_that_path() -> None:
    own = {"": ["kueue", "serviceAccountName"], "kueue": ["queue"], "serviceAccount": ["create"]}
    assert names.remedy("serviceAccount", "name", own, {}) == "use serviceAccountName"
    assert names.remedy("", "kueueQueue", own, {}) == "use kueue.queue"


def test_a_map_of_verl_is_answered_as_one() -> None:
    maps = ("actor_rollout_ref", "critic", "trainer", "algorithm", "data", "ray_init")
    assert all("verl" in names.elsewhere("", each) for each in maps)
