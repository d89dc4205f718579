from pathlib import Path

import pytest

from launchers.storage import marker
from launchers.storage.manifest import Entry
from launchers.storage.marker import Marker

ONE = Marker(
    inputs={"source": "hf://a/b@c", "flags": ["x"]},
    manifest={"b/f": Entry(3, "00")},
    made={"seconds": 1.5},
)


def test_a_folder_without_marker_or_no_folder_has_none(tmp_path: Path) -> None:
    assert marker.read(tmp_path) is None
    assert marker.read(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"inputs": {}}', '{"inputs": {}, "manifest": 3, "made": {}}']
)
def test_a_torn_or_foreign_marker_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / marker.NAME).write_text(text)
    assert marker.read(tmp_path) is None


def test_the_digest_sees_inputs_and_content_but_not_the_time() -> None:
    later = Marker(inputs=ONE.inputs, manifest=ONE.manifest, made={"seconds": 9})
    assert marker.digest(later) == marker.digest(ONE)
    other_input = Marker(inputs={"source": "x"}, manifest=ONE.manifest)
    other_content = Marker(inputs=ONE.inputs, manifest={"b/f": Entry(3, "01")})
    other_name = Marker(inputs=ONE.inputs, manifest={"b/g": Entry(3, "00")})
    digests = {marker.digest(m) for m in (ONE, other_input, other_content, other_name)}
    assert len(digests) == 4
