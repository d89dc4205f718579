"""The only file of the launcher that ms-swift loads by ``--external_plugins``.

ms-swift puts the folder of each plugin first on ``sys.path`` and imports the file by its name alone
(``swift/utils/utils.py: import_external_file``, 4.4.1). Ours has ``loading.py``, ``packs/`` and
other names that a user's plugin, a tracker or a spawned process may import for its own, so the
folder is removed first; everything else is imported as a part of ``launchers``.
"""

import os
import sys
from pathlib import Path

_FOLDER = str(Path(__file__).parent)
sys.path[:] = [each for each in sys.path if each != _FOLDER]

from launchers.training import loading  # noqa: E402 - after the folder is removed

loading.load(os.environ)
