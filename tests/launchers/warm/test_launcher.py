"""A forked launcher prints and ends as one that is started."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launchers import warm
from tests.launchers.pods import PYTHONPATH, ROOT

IS_IMPORTED = "import sys; print('launchers.command' in sys.modules)"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def ended(program: Path, *words: str, path: str = PYTHONPATH) -> tuple[int, str, str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    done = subprocess.run([program, *words], env=env, capture_output=True, text=True)
    return done.returncode, re.sub(r"\d+-\d+-\d+T[\d:.]+Z", "", done.stdout), done.stderr


@pytest.mark.parametrize(
    "words", [("-m", "launchers", "trian"), ("-m", "launchers", "check"), ("-c", KILL)]
)
def test_it_prints_and_ends_as_the_tests_python(words: tuple[str, ...]) -> None:
    assert ended(warm.launcher(PYTHONPATH), *words) == ended(Path(sys.executable), *words)


def test_the_launcher_has_been_imported_unless_the_path_differs() -> None:
    program = warm.launcher(PYTHONPATH)
    assert ended(program, "-c", IS_IMPORTED)[1] == "True\n"
    assert ended(program, "-c", IS_IMPORTED, path=str(ROOT))[1] == "False\n"
