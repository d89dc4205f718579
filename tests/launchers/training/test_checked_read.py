"""A shard that cannot be read ends the load, with the reader of the real ms-swift."""

from pathlib import Path

import pytest

from launchers.exits import Exit
from launchers.system.failures import verdict
from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import OLDEST, STACK, TRAIN, needs_training

PROGRAM = """
import importlib.util, sys, traceback, types
from pathlib import Path
import torch, torch.distributed.checkpoint as dcp
# swift.megatron itself needs megatron-core: only its file with the reader is loaded
spec = importlib.util.spec_from_file_location("swift.megatron.init", "{swift}/megatron/init.py")
sys.modules["swift.megatron"] = package = types.ModuleType("swift.megatron")
sys.modules["swift.megatron.init"] = package.init = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module._patch_torch_FileSystemReader()
if {installed}:
    from launchers.training import checked_read
    checked_read.install()
saved = {{str(i): torch.full((1000,), i + 1.0) for i in range(40)}}
dcp.save(saved, checkpoint_id="saved", no_dist=True)
[shard] = Path("saved").glob("*.distcp")
match "{fault}":
    case "missing": shard.unlink()
    case "truncated": shard.write_bytes(shard.read_bytes()[:60000])
loaded = {{name: torch.zeros(1000) for name in saved}}
try:
    dcp.load(loaded, checkpoint_id="saved", no_dist=True)
except BaseException:
    print(traceback.format_exc())
else:
    print("loaded", sum(bool((loaded[name] == saved[name]).all()) for name in saved), "of 40")
"""


def load(folder: Path, fault: str, *, installed: bool) -> str:
    [swift] = TRAIN.glob("lib/python3.*/site-packages/swift")
    program = PROGRAM.format(swift=swift, fault=fault, installed=installed)
    return fake_upstream.run(folder, program)


@needs_training
def test_without_the_feature_ms_swift_trains_on_from_what_it_did_not_read(tmp_path: Path) -> None:
    last = load(tmp_path, "missing", installed=False).splitlines()[-1]
    if STACK is OLDEST:
        assert last == "loaded 0 of 40"
    else:  # the patch is not needed
        assert "No such file" in last


@needs_training
@pytest.mark.skipif(STACK is not OLDEST, reason="ms-swift raises the error itself")
@pytest.mark.parametrize("fault", ["missing", "truncated"])
def test_a_shard_that_cannot_be_read_ends_the_load(tmp_path: Path, fault: str) -> None:
    output = load(tmp_path, fault, installed=True)
    assert "loaded" not in output.splitlines()[-1]
    found = verdict(output, started=True)
    assert found is not None and (found.code, found.id) == (Exit.IO, "checkpoint-read")
    assert "reads of the checkpoint failed" in found.cause
    assert ("No such file" in found.cause) == (fault == "missing")


@needs_training
def test_a_whole_checkpoint_is_loaded_as_before(tmp_path: Path) -> None:
    assert load(tmp_path, "none", installed=True).splitlines()[-1] == "loaded 40 of 40"
