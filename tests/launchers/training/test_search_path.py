"""What ms-swift leaves on Python's search path by loading our plugins hides nobody's modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripts.helm import ROOT

OWN = ROOT / "launchers"
LOAD = """
import importlib, sys
for path in sys.argv[1:]:
    folder, _, name = path.rpartition("/")
    sys.path.insert(0, folder)  # as import_external_file does
    importlib.import_module(name.removesuffix(".py"))
"""


def test_a_users_module_is_not_hidden_by_one_of_ours_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "mine.py").write_text("import metrics\nprint(metrics.__file__)\n")
    (tmp_path / "metrics/rows.py").touch()
    last = OWN / "training/search_path.py"
    plugins = [OWN / "rules/divisors.py", last, tmp_path / "plugins" / "mine.py"]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, plugins)],
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "metrics/rows.py")
