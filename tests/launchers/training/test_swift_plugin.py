"""The one file of ours that ms-swift loads installs features and leaves the search path."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launchers import PACKAGE
from launchers.exits import Exit
from launchers.flags import external_plugins, features
from launchers.system.failures import verdict
from launchers.upstream.patches import ACCEPT
from scripts.helm import ROOT
from tests.launchers.training import fake_upstream

LOAD = """
import importlib, sys
for path in sys.argv[1:]:
    folder, _, name = path.rpartition("/")
    sys.path.insert(0, folder)  # as import_external_file does
    importlib.import_module(name.removesuffix(".py"))
"""
UPSTREAM = {
    "swift/megatron/callbacks/base.py": "class MegatronCallback: pass",
    "swift/megatron/callbacks/mapping.py": "megatron_callbacks_map = {}",
    "swift/megatron/trainers/base.py": "class BaseMegatronTrainer: save_checkpoint = None",
    "torch/distributed.py": "",
}
SHOW = """
import sys
from swift.megatron.callbacks.mapping import megatron_callbacks_map
print("callbacks", *megatron_callbacks_map)
inside = ("launchers.training.", "launchers.stop.", "launchers.evaluation.", "launchers.hang.")
print("modules", *sorted(name for name in sys.modules if name.startswith(inside)))
"""

ALWAYS = (
    *("hang.heartbeat", "hang.stacks", "stop.finished", "stop.sigterm", "stop.uncaught"),
    *("training.installed", "training.loading", "training.saving", "training.saving.foreground"),
)
SEAL = (
    *("evaluation.owed", "hang.settings"),  # the lease of a run reads settings
    *("training.checkpoint_record", "training.seal_megatron"),
    *(f"training.saving.{name}" for name in ("background", "files", "host_buffer", "staging")),
)


def modules(*more: str) -> str:
    """Return the line of all modules of ours that training has imported."""
    return " ".join(("modules", *sorted(f"launchers.{name}" for name in (*ALWAYS, *more))))


def load(folder: Path, names: str, *plugins: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Load ours and other plugins as ms-swift does, among stand-ins for its callbacks."""
    fake_upstream.lay(folder / "upstream", UPSTREAM)
    show = folder / "show.py"
    show.write_text(SHOW)
    inside = {**os.environ, "PYTHONPATH": f"{folder / 'upstream'}:{ROOT}:{folder}"}
    inside |= {**fake_upstream.ACCEPTED, features.VARIABLE: names, **env}
    words = [sys.executable, "-c", LOAD, *map(str, (external_plugins.PLUGIN, *plugins, show))]
    return subprocess.run(words, env=inside, capture_output=True, text=True)


def test_features_are_installed_in_their_order_and_rank_0_logs_them(tmp_path: Path) -> None:
    names = "merge_last,seal_megatron"
    done = load(tmp_path, names, RANK="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"features installed={names}",
        'patch merge-last effect=numbers state=accepted sources=""',
        'patch seal-megatron effect=required state=accepted sources=""',
        "callbacks merge_last seal",
        modules("training.merge_last", *SEAL),
    ]
    other = load(tmp_path, names, RANK="3")
    assert other.stdout.splitlines()[0] == "callbacks merge_last seal"


RAISE = """
import io, sys, threading, time
inner = sys.excepthook

def buffered(*error):  # as init_process_group does, torch 2.11
    real, sys.stderr = sys.stderr, io.StringIO()
    try:
        inner(*error)
    finally:
        text, sys.stderr = sys.stderr.getvalue(), real
    sys.stderr.write(text)

sys.excepthook = buffered
threading.Thread(target=time.sleep, args=(600,)).start()  # the end of Python joins it
raise RuntimeError("the gate has no tokens")
"""


def test_an_uncaught_exception_ends_the_process_at_once(tmp_path: Path) -> None:
    last = tmp_path / "raise_last.py"
    last.write_text(RAISE)
    done = load(tmp_path, "merge_last", last, RANK="1")
    assert done.returncode == 1
    assert done.stderr.count("RuntimeError: the gate has no tokens") == 1


HOSTILE = {
    "hides it": "sys.excepthook = lambda *error: None",
    "raises": "sys.excepthook = lambda *error: 1 / 0",
    "never returns": "sys.excepthook = lambda *error: time.sleep(600)",
    "ends well": "sys.excepthook = lambda *error: os._exit(0)",
    "closed streams": "sys.stdout = sys.__stdout__ = None; sys.__stderr__.close()",
    "stdout that raises": "sys.stdout = type('Out', (), {'flush': lambda self: 1 / 0})()",
}


@pytest.mark.parametrize("hook", HOSTILE.values(), ids=HOSTILE)
def test_no_hook_of_a_plugin_hides_an_uncaught_exception(tmp_path: Path, hook: str) -> None:
    plugin = tmp_path / "raise_last.py"
    start = "threading.Thread(target=time.sleep, args=(600,)).start()"
    error = "raise RuntimeError('the gate has no tokens')"
    plugin.write_text("\n".join(["import os, sys, threading, time", hook, start, error]))
    done = load(tmp_path, "merge_last", plugin, RANK="1")
    assert done.returncode == 1
    found = verdict(done.stderr, started=True)
    assert found is not None and found.cause == "RuntimeError: the gate has no tokens"


def test_without_the_launcher_nothing_is_installed(tmp_path: Path) -> None:
    assert load(tmp_path, "").stdout.splitlines() == ["callbacks", modules()]


def test_a_patch_that_steps_aside_leaves_a_callback_that_does_nothing(tmp_path: Path) -> None:
    done = load(tmp_path, "startup_megatron,seal_megatron", **{ACCEPT: "seal-megatron"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "features installed=seal_megatron",
        'patch startup-megatron effect=speed state="stepped aside" sources=""',
        'patch seal-megatron effect=required state=accepted sources=""',
        "callbacks phases seal",
        modules(*SEAL),
    ]
    assert "patch startup-megatron stepped aside unknown=swift." in done.stderr


def test_a_patch_that_cannot_be_left_out_ends_the_run_before_it_is_imported(tmp_path: Path) -> None:
    done = load(tmp_path, "chunked_adam", **{ACCEPT: ""})
    found = verdict(done.stderr, started=False)
    assert found is not None and (found.code, found.id) == (Exit.CONFIG, "patch-unknown-source")
    assert "chunked_adam.py" not in done.stderr


def test_a_users_module_is_not_hidden_by_one_of_ours_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    names = ("metrics", "upstream", "loading")
    mine = tmp_path / "plugins" / "mine.py"
    mine.write_text("".join(f"import {name}\nprint({name}.__file__)\n" for name in names))
    for name in names:
        (tmp_path / f"{name}.py").touch()
    done = load(tmp_path, "merge_last", mine)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[2:5] == [str(tmp_path / f"{name}.py") for name in names]


def test_every_feature_is_a_function_or_a_callback_of_a_module() -> None:
    for feature in features.FEATURES:
        path = PACKAGE / f"{feature.module.replace('.', '/')}.py"
        source = path.read_text(encoding="utf-8")
        is_class = feature.callback is not None and f"\nclass {feature.function}(" in source
        assert is_class or f"\ndef {feature.function}() -> None:\n" in source
    names = [feature.name for feature in features.FEATURES]
    assert len(set(names)) == len(names)
