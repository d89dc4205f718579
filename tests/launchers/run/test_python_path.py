"""`code.pythonPath`: training imports from folders of the clone before the image's packages."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from launchers import command
from launchers.config.recipe import Recipe
from launchers.config.settings import Settings, from_env
from launchers.exits import Exit, LaunchError
from launchers.inputs.paths import clone_path, importable, inputs_of, slug
from tests.launchers.git_server import repository
from tests.launchers.pods import FAKES, ROOT, Pods, read

NAMES = ("src", "third_party/megatron")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return a repository with a module that Python has as well."""
    files = {"src/colorsys/__init__.py": "patched = True\n", "third_party/megatron/a.py": ""}
    repository(tmp_path / "code", files)
    return f"file://{tmp_path / 'code'}"


def code(url: str, *names: str) -> dict[str, str]:
    ref = {"DPO_CODE_REF": url and "main", "DPO_CODE_PYTHONPATH": ":".join(names)}
    return {"DPO_CODE_URL": url, **ref}


def test_training_imports_the_clone_first(url: str, tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1)
    pods.ended(**code(url, *NAMES))
    settings = from_env(pods.env(0, **code(url, *NAMES)))
    clone = clone_path(settings.stages.code, settings.launch.work)
    assert clone is not None
    [noted] = (pods.run / "attempts").rglob("env.json")
    env = read(noted)
    expected = [str(ROOT), *(str(clone / name) for name in NAMES), str(ROOT), str(FAKES)]
    assert env["PYTHONPATH"].split(":") == expected
    command = [sys.executable, "-c", "import colorsys; print(colorsys.patched)"]
    seen = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert seen.stdout == "True\n"


def test_train_imports_from_the_shared_clone_if_the_run_has_no_other(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = Pods(tmp_path).env(0, **code(url, "src"))
    settings, seen = from_env(env), list[str]()
    shared = settings.launch.work.code(slug(settings.stages.code))
    (shared / "src").mkdir(parents=True)

    def noted(settings: Settings, recipe: Recipe, env: Mapping[str, str]) -> None:
        seen.extend((env["PYTHONPATH"].split(":")[0], str(inputs_of(settings, recipe).clone)))

    monkeypatch.setattr(command, "run", noted)
    command._act("train", settings, env)
    assert seen == [str(shared / "src"), str(shared)]


def test_a_folder_that_the_code_does_not_have_is_refused(url: str, tmp_path: Path) -> None:
    pods = Pods(tmp_path, nodes=1)
    pods.ended(Exit.INPUT_MISSING, **code(url, "lib"))
    assert "has no folder 'lib'" in pods.message(0)["cause"]


@pytest.mark.parametrize(("given", "name"), [("x", "/opt"), ("x", "../x"), ("", "src")])
def test_a_folder_outside_the_clone_is_refused(tmp_path: Path, given: str, name: str) -> None:
    env = Pods(tmp_path).env(0, **code(given, name))
    with pytest.raises(LaunchError) as refused:
        importable(from_env(env), env)
    assert (refused.value.code, refused.value.id) == (Exit.CONFIG, "code-python-path")


def test_without_it_the_environment_stays(tmp_path: Path) -> None:
    env = Pods(tmp_path).env(0)
    assert importable(from_env(env), env) is env
