"""Names that users rely on stay: values keys, settings, exit codes and files of a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launchers.config import settings
from launchers.config.workspace import Workspace
from launchers.exits import Exit
from launchers.yaml_file import read_yaml
from scripts.helm import ROOT

PROMISED: dict[str, Any] = read_yaml(Path(__file__).with_name("contract.yaml"))
"""Entries are added, never removed: an old values file, script or run uses them."""


def keys(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of all keys that are not maps with keys of the chart's own.

    >>> list(keys({"a": {"b": 1, "c": {}}}))
    ['a.b', 'a.c']
    """
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from keys(value, f"{prefix}{key}.")
        else:
            yield prefix + key


def test_each_promised_values_key_exists() -> None:
    values = read_yaml(ROOT / "chart" / "values.yaml")
    assert set(PROMISED["values"]) - set(keys(values)) == set()


def test_each_promised_setting_is_known() -> None:
    known = {*settings._SETTINGS, *settings._USER_SETTINGS}
    assert set(PROMISED["settings"]) - known == set()


def test_each_promised_exit_code_has_its_meaning() -> None:
    assert PROMISED["exits"].items() <= {code.name: code.value for code in Exit}.items()


def test_each_promised_file_of_a_run_has_its_place(tmp_path: Path) -> None:
    place = Workspace(root=tmp_path, run="r")
    found = {n: str(getattr(place, n).relative_to(place.home)) for n in PROMISED["files"]}
    assert found == PROMISED["files"]
