"""The installation time of this release, from Helm's record of it in a Secret."""

import base64
import gzip
import json
from datetime import datetime
from pathlib import Path

from launchers import logs


def installation_time(record: Path | None) -> float | None:
    """Return when the release was installed, as Unix time; None when that is not known.

    ``record``: key ``release`` of the Secret ``sh.helm.release.v1.NAME.vREVISION``; with another
    ``HELM_DRIVER`` Helm keeps its records elsewhere, and the file is missing.
    """
    if record is None:
        return None
    try:
        return parse_record(record.read_bytes())
    except FileNotFoundError:
        logs.warning("no record of the Helm release", path=record)
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        logs.warning("unreadable record of the Helm release", path=record, cause=repr(error))
    return None


def parse_record(record: bytes) -> float:
    """Return the time in Helm's record: base64 of gzip-compressed JSON.

    >>> fields = b'{"info": {"first_deployed": "1970-01-01T01:00:01.123456789+01:00"}}'
    >>> parse_record(base64.b64encode(gzip.compress(fields)))
    1.123456
    """
    document = json.loads(gzip.decompress(base64.b64decode(record)))
    return datetime.fromisoformat(document["info"]["first_deployed"]).timestamp()
