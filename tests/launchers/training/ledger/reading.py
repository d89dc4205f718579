"""Read a ledger, which takes pyarrow, in the training Python."""

import json
from pathlib import Path
from typing import Any

from tests.launchers import warm

READ = """
import json, sys
from pathlib import Path
from launchers.training.ledger.parts import read
columns, files = read(Path(sys.argv[1]) / "pairs")
rows = zip(*(columns[name].tolist() for name in sys.argv[2:]))
print(json.dumps([files, sorted(rows)]))
"""


def columns(home: Path, *names: str) -> Any:
    """Return the names of the files, and the columns of all pairs, sorted."""
    return json.loads(warm.printed("-c", READ, home, *names))
