"""A forked process prints, ends and leaves the same as one of the training Python."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from scripts.helm import ROOT
from tests.launchers import warm
from tests.launchers.training_environment import PYTHON, needs_training
from tests.launchers.waiting import eventually

pytestmark = needs_training

PRINT = "import os, sys; print(sys.argv, os.getcwd(), os.environ['A'], __name__, sys.stdin.read())"
CASES = {
    "a text": ["-c", PRINT, "a", "b c"],
    "a module": ["-m", "tests.launchers.warm.said", "x"],
    "a file": [str(Path(__file__).with_name("said.py")), "x"],
    "unbuffered": ["-u", "-c", PRINT],
    "warnings": ["-W", "error", "-c", PRINT],
    "an exit": ["-c", "import sys; sys.exit(7)"],
    "a message": ["-c", "import sys; sys.exit('stopped')"],
    "at its end": ["-c", "import atexit; atexit.register(print, 'last'); print('first')"],
    "a signal": ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"],
    "a kill": ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"],
    "a module that is absent": ["-m", "tests.no_such"],
    "ms-swift": ["-c", "import swift, sys; print('swift.trainers' in sys.modules or 'early')"],
}


def ended(program: Path, words: list[str], folder: Path, **env: str) -> Any:
    inside = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT), "A": "b", **env}
    done = subprocess.run(
        [program, *words], cwd=folder, env=inside, input="in", capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr.splitlines()[-1:]


@pytest.mark.parametrize("name", [name for name in CASES if name != "ms-swift"])
def test_it_prints_and_ends_as_the_training_python(name: str, tmp_path: Path) -> None:
    words = CASES[name]
    found, expected = (ended(each, words, tmp_path) for each in (warm.python(), PYTHON))
    if name == "a module that is absent":  # the message names the program
        found, expected = found[:2], expected[:2]
    assert found == expected


def test_ms_swift_has_been_imported_unless_a_variable_differs(tmp_path: Path) -> None:
    words = CASES["ms-swift"]
    assert ended(warm.python(), words, tmp_path)[1] == "True\n"
    assert ended(warm.python(), words, tmp_path, HF_ENDPOINT="http://127.0.0.1:1")[1] == "early\n"
    assert ended(warm.python(), words, tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT}")[1] == "early\n"


def test_a_case_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    change = "import swift, os, torch; swift.x = os.environ['B'] = '1'; torch.set_num_threads(1)"
    show = "import swift, os, torch; print(hasattr(swift, 'x'), 'B' in os.environ)"
    show += "; print(torch.get_num_threads())"
    assert ended(warm.python(), ["-c", change], tmp_path)[0] == 0
    found = ended(warm.python(), ["-c", show], tmp_path, OMP_NUM_THREADS="2")
    assert found[1] == "False False\n2\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_process(number: signal.Signals, tmp_path: Path) -> None:
    code = f"import os, time; open(r'{tmp_path}/pid', 'w').write(f'{{os.getpid()}}\\n')"
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([warm.python(), "-c", f"{code}; time.sleep(100)"], env=env) as process:
        pid = tmp_path / "pid"
        assert eventually(lambda: pid.exists() and pid.read_text()[-1:] == "\n")
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
    assert eventually(lambda: not Path("/proc", pid.read_text().strip()).exists())
