import json
import os
import subprocess
from pathlib import Path

from launchers.config.rank import Place
from launchers.flags.command_line import environment
from scripts.helm import ROOT
from tests.launchers.training_environment import PYTHON, needs_training

OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
PLACE = Place(rank=0, nodes=1, master_addr="127.0.0.1", master_port=1, source="test")
MODEL = """
import sys
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config
Qwen3Config(architectures=["Qwen3ForCausalLM"]).save_pretrained(sys.argv[1])
vocabulary = {"a": 0, "<|endoftext|>": 1}
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(sys.argv[1])
"""


def python(env: dict[str, str], *argv: str | Path) -> str:
    done = subprocess.run(
        [PYTHON, "-W", "ignore", *argv], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_training
def test_the_start_of_a_training_asks_no_host_but_its_own(tmp_path: Path) -> None:
    """ms-swift, transformers and datasets in the environment that the launcher gives them.

    Without it ``datasets`` looks for its JSON loader on a host of its own, with retries.
    """
    base = {k: v for k, v in os.environ.items() if k not in OFFLINE}
    base |= {"HF_HOME": str(tmp_path / "hf"), "MODELSCOPE_CACHE": str(tmp_path / "ms")}
    base |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    env = environment(base, PLACE, nproc=1, package=ROOT / "launchers")
    model, pairs = tmp_path / "model", tmp_path / "pairs.jsonl"
    python(env, "-c", MODEL, model)
    pairs.write_text('{"messages": [{"role": "user", "content": "q"}]}\n')
    case = Path(__file__).with_name("offline_start.py")
    assert json.loads(python(env, case, model, pairs).splitlines()[-1]) == []
    online = {k: v for k, v in env.items() if k not in OFFLINE}
    online["HF_HOME"] = str(tmp_path / "hf2")
    assert json.loads(python(online, case, model, pairs).splitlines()[-1]) != []
