"""Raw results of GPU visits: ``tests/bench/results``, one compact file a visit.

A visit is a day with one number of GPUs of one model. Its file is a JSON object of results by name,
one a line. Standard library only: GPU hosts write these files too.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "bench" / "results"
Record = dict[str, Any]


def visit_of(record: Mapping[str, Any]) -> str:
    """Return the name of a result's visit.

    ``record``: with ``when`` (ISO 8601) and ``gpus`` (as ``nvidia-smi`` names them).

    >>> visit_of({"when": "2026-11-25T00:18:47+00:00", "gpus": ["NVIDIA H100 80GB HBM3, 580"] * 2})
    '2026-11-25-2xh100'
    """
    gpus = record["gpus"]
    model = gpus[0].split(",")[0].split()[1].lower() if gpus else "cpu"
    return f"{record['when'][:10]}-{len(gpus)}x{model}"


def put(folder: Path, name: str, record: Mapping[str, Any]) -> Path:
    """Write a result into the file of its visit, in place of one of the same name.

    Paths of this checkout are made relative.

    Returns:
        The file.
    """
    path = folder / f"{visit_of(record)}.json"
    held = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    held[name] = record
    lines = (f"{json.dumps(key)}: {_compact(held[key])}" for key in sorted(held))
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".partial")
    part.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    part.replace(path)
    return path


def _compact(record: Any) -> str:
    return json.dumps(record, separators=(",", ":")).replace(f"{ROOT}/", "")


def text(result: Any) -> str:
    """Return JSON of a result with one line for each case, which is an item of a list.

    >>> print(text({"seed": 1, "runs": [{"name": "a", "codes": [1, 81]}, {"name": "b"}]}), end="")
    {
    "seed": 1,
    "runs": [
    {"name": "a", "codes": [1, 81]},
    {"name": "b"}
    ]
    }
    """
    if isinstance(result, list) and any(isinstance(item, dict) for item in result):
        return "[\n" + ",\n".join(map(json.dumps, result)) + "\n]\n"
    if isinstance(result, dict) and any(isinstance(item, dict | list) for item in result.values()):
        items = (f"{json.dumps(key)}: {text(item).rstrip()}" for key, item in result.items())
        return "{\n" + ",\n".join(items) + "\n}\n"
    return json.dumps(result) + "\n"


def read(folder: Path = FOLDER, prefix: str = "") -> dict[str, Record]:
    """Return the results whose names begin with a prefix, by name; of two visits the later one's.

    The order is that of the names' files before visits had one file each: ``a-b`` before ``a``.
    """
    found: dict[str, Record] = {}
    for path in sorted(folder.glob("*.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return {
        name: found[name] for name in sorted(found, key="{}.".format) if name.startswith(prefix)
    }


def link(name: str, record: Mapping[str, Any]) -> str:
    """Return a Markdown link from a page in ``values/`` to the file of a result."""
    return f"[`{name}`](../tests/bench/results/{visit_of(record)}.json)"
