"""Safetensors that threads write have the bytes of upstream's, and no error of theirs is lost."""

import json
from pathlib import Path

from tests.launchers.training import fake_upstream
from tests.launchers.training_environment import ORACLE, needs_oracle

pytestmark = needs_oracle

BRIDGE = """
class GPTBridge:
    def export_weights(self, mg_models, target_device=None, _is_saving=False):
        yield target_device
from mcore_bridge.utils.safetensors import StreamingSafetensorSaver
"""
ENV = """
def is_master(): return True
def is_last_rank(): return True
"""
BEGIN = """
import json, pathlib, torch
from mcore_bridge.bridge import gpt_bridge
from mcore_bridge.utils import safetensors as upstream
types = (torch.bfloat16, torch.float32, torch.int64, torch.uint8, torch.float16, torch.int32)
weights = {f"layers.{n}.w{n % 3}": torch.randn(3 + n % 5, 700).to(types[n % len(types)])
           for n in range(60)} | {"scalar": torch.tensor(2.0), "none": torch.empty(0, 4)}

def save(folder):
    saver = gpt_bridge.StreamingSafetensorSaver(folder, "1GB")
    saver.max_shard_size = 60_000
    for name, tensor in weights.items():
        saver.add_tensor(name, tensor)
    saver.finalize()
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}

before = save("upstream")
from launchers.training.saving import shard_writes
shard_writes.install()
"""


def seen(folder: Path, program: str) -> str:
    """Run a program with the stand-ins of a bridge and upstream's own writer of safetensors."""
    source = ORACLE / "mcore_bridge/utils/safetensors.py"
    files = {
        "mcore_bridge/bridge/gpt_bridge.py": BRIDGE,
        "mcore_bridge/utils/env.py": ENV,
        "mcore_bridge/utils/safetensors.py": source.read_text(),
    }
    return fake_upstream.run(folder, BEGIN + program, files)


def test_the_files_have_the_bytes_of_upstreams(tmp_path: Path) -> None:
    program = """
after, shard_writes.NEW_BYTES = save("ours"), 0
made, empty = [], torch.empty
def counted(size, **named):
    made.append(size)
    return empty(size, **named)
torch.empty = counted
again = save("again")
is_same, size = before == after == again, sum(map(len, before.values()))
print(json.dumps([len(before), is_same, sum(made), size]))
"""
    said, _, found = seen(tmp_path, program).splitlines()
    count, is_same, taken, written = json.loads(found)
    assert is_same and count > 5  # several shards and their index
    assert taken < 0.6 * written  # memory of written weights is used again
    assert said.startswith("safetensors written folder=ours bytes=")


def test_a_type_that_is_not_known_is_written_by_upstream(tmp_path: Path) -> None:
    program = """
weights["narrow"] = torch.ones(8).to(torch.float8_e4m3fn)
after = save("ours")
from safetensors.torch import load_file
found = {}
for path in pathlib.Path("ours").glob("*.safetensors"):
    found |= load_file(path)
print(all(torch.equal(found[n].float(), weights[n].float()) for n in weights))
"""
    assert seen(tmp_path, program).splitlines()[-1] == "True"


def test_an_error_of_a_write_ends_the_save(tmp_path: Path) -> None:
    program = """
def write(tensors, path):
    raise OSError("no space left")
shard_writes.write = write
try:
    save("ours")
except OSError as error:
    print(error)
"""
    assert seen(tmp_path, program) == "no space left"


def test_what_is_saved_is_complete_on_the_gpu_before_it_is_copied(tmp_path: Path) -> None:
    program = """
bridge = gpt_bridge.GPTBridge()
def devices():
    return [next(bridge.export_weights([], target_device="cpu", _is_saving=s)) for s in (1, 0)]
found = devices()
torch.cuda.is_available = lambda: True
print(json.dumps([found, devices()]))
"""
    assert json.loads(seen(tmp_path, program)) == [["cpu", "cpu"], [None, "cpu"]]


def test_without_room_on_one_rank_all_gather_to_the_host_in_chunks(tmp_path: Path) -> None:
    program = """
class Bridge(gpt_bridge.GPTBridge):
    _stream_to_cpu, tp_size, ep_size, etp_size = None, 1, 2, 1
class Model:
    def named_parameters(self):  # 2 layers: 400 and 800 bytes, twice
        yield from ((f"layers.{n}.w", torch.zeros(100 * n)) for n in (1, 2))
cuda, dist = torch.cuda, shard_writes.dist
cuda.is_available, dist.get_world_size = lambda: True, lambda: 2
cuda.memory_reserved, cuda.memory_allocated = lambda: 900, lambda: 500
def device(free, other):
    def gathered(found, mine):
        found[:] = [mine, other]
    cuda.mem_get_info, dist.all_gather_object = lambda: (free, 1 << 40), gathered
    return next(Bridge().export_weights([Model()], target_device="cpu", _is_saving=True))
print(json.dumps([device(6001, True), device(6000, True), device(6001, False)]))
"""
    assert json.loads(seen(tmp_path, program)) == [None, "cpu", "cpu"]
