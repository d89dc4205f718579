"""Reads a policy and a reference with our features, and prints what was read: run by a test.

The training environment's torch is real; mcore-bridge is a fake, as it needs Transformer Engine.
"""

import json
import sys
from pathlib import Path

import torch
from mcore_bridge.bridge import gpt_bridge
from safetensors.torch import save_file


class Model(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, *, wide: bool = False) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2, dtype=torch.bfloat16)
        dtype = torch.float32 if wide else torch.bfloat16
        self.register_buffer("bias", torch.zeros(2, dtype=dtype))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)


class Quantized(torch.Tensor):  # type: ignore[misc]
    """A tensor whose bytes are not its numbers."""


def differences() -> None:
    """Print why models that differ are read twice."""
    from launchers.training.weight_loading import difference

    weight = torch.zeros(2, 3, dtype=torch.bfloat16)
    others: dict[str, dict[str, torch.Tensor]] = {
        "equal": {"w": torch.ones_like(weight)},
        "shape": {"w": weight.reshape(3, 2)},
        "type": {"w": weight.float()},
        "missing": {},
        "more": {"w": weight, "b": weight},
    }
    reported = {name: difference({"w": weight}, other) for name, other in others.items()}
    quantized = {"w": weight.as_subclass(Quantized)}
    print(json.dumps(reported | {"quantized": difference(quantized, quantized)}))


def main(folder: Path, case: str) -> None:
    from launchers.training import loading

    read = gpt_bridge.GPTBridge.load_weights
    for feature in ("one_read", "device_read"):
        loading.install(feature)
    for name in ("base", "other"):
        (folder / name).mkdir()
        torch.manual_seed(len(name))
        tensors = {k: torch.randn_like(v) for k, v in Model().state_dict().items()}
        save_file(tensors, folder / name / "model.safetensors")
    bridge = gpt_bridge.GPTBridge()
    policy, reference = Model(), Model(wide=case == "wide")
    bridge.load_weights([policy], str(folder / "base"))
    policy.scratch.fill_(7)
    second = str(folder / ("other" if case == "other" else "./base"))
    more = {"converter": print} if case == "converter" else {}
    bridge.load_weights([reference], second, **more)
    bridge.load_weights([Model()], str(folder / "base"))
    fresh = Model()
    read(bridge, [fresh], second)
    equal = [
        torch.equal(a, b)
        for a, b in zip(reference.state_dict().values(), fresh.state_dict().values(), strict=True)
    ]
    reported = {"reads": [Path(r).name for r in gpt_bridge.reads[:-1]], "equal": all(equal)}
    shared = policy.linear.weight.data_ptr() == reference.linear.weight.data_ptr()
    print(json.dumps(reported | {"shared": shared, "scratch": reference.scratch.item()}))


if __name__ == "__main__":
    if sys.argv[2] == "differences":
        differences()
    else:
        main(Path(sys.argv[1]), sys.argv[2])
