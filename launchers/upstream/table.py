"""The patches of ``patches.yaml``: what each training feature replaces or relies on."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launchers.upstream.patches import ACCEPT, Patch, Verdict, functions, judge
from launchers.yaml_file import read_yaml

FILE = Path(__file__).with_name("patches.yaml")


def _patches(table: Mapping[str, Mapping[str, Any]]) -> Iterator[Patch]:
    for feature, row in table.items():
        named = row["functions"].items()
        found = tuple(each for scope, names in named for each in functions(scope, names))
        yield Patch(feature, **{**row, "functions": found})


PATCHES = (*_patches(read_yaml(FILE)),)


def of_feature(feature: str) -> Verdict | None:
    """Judge the patch of a feature in this environment; None if the feature has none."""
    patch = next((each for each in PATCHES if each.feature == feature), None)
    return None if patch is None else judge(patch, os.environ.get(ACCEPT, ""))
