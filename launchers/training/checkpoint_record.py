"""What trained a checkpoint, written into it before it is sealed: features, patches, versions."""

import json
import os
from pathlib import Path

from launchers.evaluation import owed
from launchers.storage import checkpoint
from launchers.system import atomic_file
from launchers.training.installed import INSTALLED, VERDICTS
from launchers.upstream import record as upstream_record


def record(folder: Path) -> None:
    """Write features, patches and versions of packages into a checkpoint."""
    document = {
        "features": INSTALLED,
        "patches": upstream_record.document(VERDICTS.values()),
        **({"owes_evaluation": True} if owed.is_noted() else {}),
        "versions": upstream_record.versions(os.environ.get("DPO_LAUNCHER_DIGEST", "")),
    }
    atomic_file.replace(folder / checkpoint.FEATURES, json.dumps(document, indent=1) + "\n")
