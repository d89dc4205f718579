"""The table of headline figures agrees with the results."""

import csv

from scripts.dev import results
from tests.bench import headlines


def test_the_table_is_that_of_the_results() -> None:
    written = headlines.FILE.read_text(encoding="utf-8")
    assert written == headlines.text(), "python3 -m tests.bench headlines --write"


def test_each_run_with_measured_steps_is_a_line() -> None:
    lines = list(csv.DictReader(headlines.FILE.open(encoding="utf-8")))
    runs = {
        (name, run): record["runs"][run]
        for name, record in results.read(prefix="bench-").items()
        for run in record["runs"]
        if record["runs"][run].get("steps")
    }
    assert {(line["result"], line["run"]) for line in lines} == runs.keys()
    for line in lines:
        run = runs[line["result"], line["run"]]
        assert float(line["mfu"]) == run["mfu"]
        assert float(line["reserved_gib"]) == run["reserved_gib"]
        assert (results.FOLDER.parent / line["data"]).is_file()
