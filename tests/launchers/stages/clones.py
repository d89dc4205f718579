from pathlib import Path

import pytest

from launchers.config.settings import Code
from launchers.config.workspace import Workspace
from launchers.exits import LaunchError
from launchers.inputs.paths import clone_path
from launchers.stages.clone import clone
from launchers.storage.output import Outcome

CANARY = "hf_CANARY0123456789"


def get(url: str, ref: str, work: Workspace, secret: Path | None = None) -> Outcome:
    return clone(Code(url=url, ref=ref, secret=secret), work, skip=False, holder="t")


def refused(url: str, ref: str, work: Workspace, secret: Path | None = None) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        get(url, ref, work, secret)
    path = clone_path(Code(url=url, ref=ref, secret=None), work)
    assert path is None or not path.exists()
    return caught.value


def secret_of(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    for name, text in files.items():
        (folder / name.replace("__", "-")).write_text(text)
    return folder
