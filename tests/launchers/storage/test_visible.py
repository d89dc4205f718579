import threading
from pathlib import Path

import pytest

from launchers.exits import Exit, LaunchError
from launchers.storage import marker
from launchers.storage.manifest import digest_folder
from launchers.storage.marker import Marker
from launchers.storage.visible import await_outputs, shared_remedy


def output(folder: Path, text: str = "x") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "file").write_text(text)
    made = Marker(inputs={"ref": "v1"}, manifest=digest_folder(folder, (marker.NAME,)))
    marker.write(folder, made)
    return marker.digest(made)


def test_outputs_that_appear_late_are_waited_for(tmp_path: Path) -> None:
    digest = output(tmp_path / "elsewhere")
    late = threading.Timer(0.3, (tmp_path / "elsewhere").rename, (tmp_path / "m",))
    late.start()
    await_outputs([[str(tmp_path / "m"), digest]], timeout=10)


@pytest.mark.parametrize("there", ["nothing", "other"])
def test_a_workspace_that_is_not_shared_is_refused(
    tmp_path: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = output(tmp_path / "seen by rank 0")
    if there == "other":
        output(tmp_path / "m", "y")
    with pytest.raises(LaunchError, match="m (is missing|differs) on this node") as no:
        await_outputs([[str(tmp_path / "m"), digest]], timeout=0)
    assert no.value.code == Exit.CONFIG
    assert "DPO_WORKSPACE" in no.value.remedy and "ReadWriteMany" not in no.value.remedy
    for name in ("DPO_NODES", "JOB_COMPLETION_INDEX"):
        monkeypatch.setenv(name, "1")
    assert "ReadWriteMany" in shared_remedy()
