"""The reader of YAML files."""

import importlib

import pytest
import yaml

from launchers import yaml_file
from launchers.upstream.table import FILE


def test_libyaml_reads_what_a_pyyaml_without_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    read = yaml_file.read_yaml(FILE)
    assert yaml_file.LOADER.__name__ == "CSafeLoader"
    with monkeypatch.context() as without:
        without.delattr(yaml, "CSafeLoader")
        assert importlib.reload(yaml_file).read_yaml(FILE) == read
    importlib.reload(yaml_file)
