"""The file of a result can be read by people and does not name this checkout."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gpu import record
from tests.gpu.bench.profiles import ROOT


def test_a_record_has_short_lists_and_no_path_of_this_checkout(tmp_path: Path) -> None:
    path = tmp_path / "results" / "visit.json"
    losses, files = [0.5, 0.25], [f"{ROOT}/values/a.yaml", f"{ROOT}/values/b.yaml"]
    record.write(path, {"losses": losses, "runs": [{"files": files}]})
    text = path.read_text(encoding="utf-8")
    assert json.loads(text) == {
        "losses": losses,
        "runs": [{"files": ["values/a.yaml", "values/b.yaml"]}],
    }
    assert '"losses": [ 0.5, 0.25 ]' in text
    assert '"files": [ "values/a.yaml", "values/b.yaml" ]' in text
