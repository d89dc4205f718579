"""Loaded into training after our other plugins: takes their folder off Python's search path.

ms-swift puts the folder of each plugin first there (``swift/utils/utils.py:
import_external_file``). Ours has files named ``metrics``, ``git`` or ``swift``: a user's plugin
would import them instead of its own, a tracker instead of GitPython, and a spawned process instead
of ms-swift.
"""

import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parent)
sys.path[:] = [each for each in sys.path if each != _FOLDER]
