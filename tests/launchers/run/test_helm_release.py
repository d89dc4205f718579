import base64
import gzip
import json
from pathlib import Path

import pytest

from launchers.run.helm_release import installation_time


def record(first: str) -> bytes:
    fields = {"name": "r", "info": {"first_deployed": first, "last_deployed": "2030-01-01"}}
    return base64.b64encode(gzip.compress(json.dumps(fields).encode(), mtime=0))


@pytest.mark.parametrize(
    "first, seconds",
    [
        ("2026-11-21T10:25:00.5Z", 1795256700.5),
        ("2026-11-21T11:25:00.500000123+01:00", 1795256700.5),
        ("2026-11-21T10:25:00Z", 1795256700.0),
    ],
)
def test_the_record_holds_the_time_of_the_first_installation(
    tmp_path: Path, first: str, seconds: float
) -> None:
    (tmp_path / "release").write_bytes(record(first))
    assert installation_time(tmp_path / "release") == seconds


@pytest.mark.parametrize(
    "content",
    [None, b"", b"?", b"aGVsbG8=", record("soon"), base64.b64encode(gzip.compress(b"1", mtime=0))],
)
def test_a_record_that_cannot_be_read_gives_no_time(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "release").write_bytes(content)
    assert installation_time(tmp_path / "release") is None
    assert installation_time(None) is None
