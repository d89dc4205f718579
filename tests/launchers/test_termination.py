import json
from pathlib import Path

from launchers import termination
from launchers.exits import Exit, LaunchError


def test_the_message_is_one_line_of_json(tmp_path: Path) -> None:
    error = LaunchError(Exit.AUTH, "401 for\nhf://o/m", "set secrets.hf", id="hub-access")
    log = tmp_path / "log"
    termination.write(log, termination.from_error(error, stage="download", rank=0))
    assert log.read_text().count("\n") == 1
    said = {"cause": "401 for hf://o/m", "remedy": "set secrets.hf", "id": "hub-access"}
    kind = {"code": 77, "class": "user"}
    place = {"stage": "download", "rank": 0, "step": None}
    assert json.loads(log.read_text()) == said | kind | place


def test_a_long_cause_fits_the_kubelets_limit() -> None:
    for letter in ("\u4e2d", '"', "\\", "\n", "\x00", "\U0001f600"):
        error = LaunchError(Exit.DATA, letter * 9000, letter * 9000, id="i" * 9000)
        line = termination.from_error(error, stage="train", rank=1).line()
        assert len(line.encode()) < termination.MAX_BYTES
        assert json.loads(line)["code"] == 65


def test_an_unwritable_place_does_not_hide_the_end(tmp_path: Path) -> None:
    error = LaunchError(Exit.DATA, "c", "r", id="i")
    termination.write(tmp_path / "no" / "log", termination.from_error(error, stage="", rank=None))
