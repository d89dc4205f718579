"""Conversion of the demo's pairs to two parquet files.

Usage, in the training environment: python -m tests.e2e.parquet PAIRS.jsonl FOLDER
"""

import json
import sys
from pathlib import Path

ROWS = 700
"""Pairs per file: the run reads 16 per step, and more pairs slow the start of each pod."""
COLUMNS = ("prompt", "chosen", "rejected")


def main() -> None:
    from datasets import Dataset

    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    for number in range(2):
        part = rows[number * ROWS : (number + 1) * ROWS]
        table = Dataset.from_list([{name: row[name] for name in COLUMNS} for row in part])
        table.to_parquet(folder / f"preferences-{number:05}.parquet")


if __name__ == "__main__":
    main()
