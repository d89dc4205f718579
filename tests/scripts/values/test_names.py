"""What replaces keys of other charts and variables of other launchers is a key of this chart."""

from __future__ import annotations

import re

import pytest

from scripts.values import names, schema
from scripts.values.flags import table_of

KEY = re.compile(r"(?<![\w./-])([a-z][A-Za-z]+(?:\.[a-z][A-Za-z_]+)*)(?![\w/-])")
ALL = {
    f"{level}.{key}".lstrip(".")
    for level, keys in schema.maps(schema.schema()).items()
    for key in keys
}
ADVICE = [(kind, name) for kind, given in names.renames().items() for name in given]


@pytest.mark.parametrize(("kind", "name"), ADVICE)
def test_the_advice_names_keys_that_exist(kind: str, name: str) -> None:
    says = names.renames()[kind][name]
    backends = table_of("4.4.1")["backends"].values()
    flags = {flag for each in backends for some in each["flags"].values() for flag in some}
    dotted = [each for each in KEY.findall(says) if "." in each and not each.startswith("gcsfuse")]
    wrong = []
    for each in dotted:
        if each.startswith("recipe.args."):
            if each.removeprefix("recipe.args.") not in flags:
                wrong.append(each)
        elif each not in ALL and each.partition(".")[0] not in ("podSpec", "workload"):
            wrong.append(each)
    assert not wrong
    assert kind == "variables" or name.partition(".")[2] or name not in ALL


def test_a_key_of_another_chart_is_found_in_any_spelling() -> None:
    assert names.elsewhere("", "gcs_mounts") == names.elsewhere("", "gcsMounts") != ""
