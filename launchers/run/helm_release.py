"""When this release was installed, from the record that Helm keeps of it in a Secret."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import datetime
from pathlib import Path

from launchers import logs


def installed(record: Path | None) -> float | None:
    """Return the time of the release's installation; None when it can't be told.

    Args:
        record: key ``release`` of the Secret ``sh.helm.release.v1.NAME.vREVISION``; Helm may
            also keep its records elsewhere (``HELM_DRIVER``), and then it is not there.
    """
    if record is None:
        return None
    try:
        return parse(record.read_bytes())
    except FileNotFoundError:
        logs.warning("no record of the release", path=record)
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        logs.warning("no record of the release that can be read", path=record, cause=repr(error))
    return None


def parse(record: bytes) -> float:
    """Return the time in Helm's record: base64 of compressed JSON, its own and the Secret's.

    >>> fields = b'{"info": {"first_deployed": "1970-01-01T01:00:01.123456789+01:00"}}'
    >>> parse(base64.b64encode(gzip.compress(fields)))
    1.123456
    """
    document = json.loads(gzip.decompress(base64.b64decode(record)))
    return datetime.fromisoformat(document["info"]["first_deployed"]).timestamp()
