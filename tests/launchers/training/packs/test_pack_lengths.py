"""The longest text of a pack as the host knows it, around a stand-in of ms-swift's function."""

import json
from pathlib import Path

from tests.launchers.training import fake_upstream

UPSTREAM = """
from types import SimpleNamespace
class Tensor:
    def __init__(self, value): self.value = value
    def __int__(self): return self.value
def get_batch_on_this_pp_rank(args, data, vp_stage=None): ...
def get_packed_seq_params(args, position_ids):
    longest = Tensor(position_ids)
    return SimpleNamespace(max_seqlen_q=longest, max_seqlen_kv=longest, cu_seqlens_q="kept")
"""
SUMS = """
class MegatronRLHFTrainer:
    def get_logps(self, output, labels, packed): return packed.cu_seqlens_q
"""
PROGRAM = """
import json
from launchers.training.packs import pack_lengths
pack_lengths.install()
from swift.megatron.trainers import utils
def seen(length):
    packed = utils.get_packed_seq_params(None, position_ids=length)
    found = packed.max_seqlen_q
    assert found is packed.max_seqlen_kv and packed.cu_seqlens_q == "kept"
    return [isinstance(found, int), found, found.item()]
from types import SimpleNamespace
from swift.megatron.trainers.rlhf_mixin import MegatronRLHFTrainer
packed = SimpleNamespace(cu_seqlens_q=SimpleNamespace(as_loaded="the host's"))
assert MegatronRLHFTrainer().get_logps(None, None, packed) == "the host's"
assert packed.cu_seqlens_q != "the host's"
print(json.dumps([seen(length) for length in LENGTHS]))
"""
BOUNDS = {1: 1024, 1023: 1024, 1024: 1024, 1025: 2048, 8192: 8192}


def test_a_length_is_a_number_rounded_up_and_none_is_cut(tmp_path: Path) -> None:
    program = PROGRAM.replace("LENGTHS", str(list(BOUNDS)))
    folder = "swift/megatron/trainers"
    files = {f"{folder}/utils.py": UPSTREAM, f"{folder}/rlhf_mixin.py": SUMS}
    found = json.loads(fake_upstream.run(tmp_path, program, files, torch=False))
    assert found == [[True, bound, length] for length, bound in BOUNDS.items()]
