"""The command, called in this process."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from scripts import cli


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Call = Callable[..., Ended]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def called(*words: str) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        return Ended(int(str(ended.value.code or 0)), *capsys.readouterr())

    return called
