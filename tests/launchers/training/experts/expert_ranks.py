"""Ranks with experts, mcore-bridge's adapters of them and megatron-core's optimizer, on CPU.

``-m tests.launchers.training.experts.expert_ranks FOLDER ENGINE EP``: trains adapters as upstream
makes them and stacked, and experts as upstream lays them and in order, saves both, and loads each
in both forms. ENGINE is a folder with the source
of a release of Transformer Engine, EP the number of ranks that share the experts. Adapters, DDP,
optimizer, checkpoints and ``TEGroupedLinear`` with its parts of a checkpoint are upstream's own.
Transformer Engine's ``GroupedLinear`` below it is a stand-in, and both forms multiply expert by
expert, so that equal bits are expected. Checkpoints are written in the background, while the
training continues. Each rank prints a line of JSON.
"""

import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from launchers.stop import finished
from launchers.training.saving import background
from launchers.training.saving.background import Writes
from tests.launchers.training.experts import grouped_on_cpu
from tests.launchers.training.experts.kept_state import equal, kept, kept_weights
from tests.launchers.training.saving.save_ranks import strategies

BF16, REMADE = torch.bfloat16, dict[int, torch.Tensor]()
EXPERTS, IN, MIDDLE, RANK = 8, 32, 16, 8
METADATA = {"distrib_optim_sharding_type": "dp_reshardable", "singleton_local_shards": False}
STEPS = 3
CASES: dict[str, dict[str, Any]] = {
    "shipped": {},
    "scaling of 3": {"scaling": 3.0},
    # gradients are reduced while others are computed, so that a buffer has several buckets
    "buckets": {"overlaps": True},
    # the norm is a sum over other tensors
    "clipped": {"clip": 0.5},
    # all weights, without adapters
    "trained": {"adapts": False},
    "trained, buckets": {"adapts": False, "overlaps": True},
}


class Model(torch.nn.Module):  # type: ignore[misc]
    """Experts, frozen if they have adapters, and a weight that all ranks have."""

    def __init__(self, config: Any, scaling: float, adapts: bool) -> None:
        super().__init__()
        core: Any = importlib.import_module("megatron.core.extensions.transformer_engine")
        lora: Any = importlib.import_module("mcore_bridge.tuners.lora")
        self.config = config
        local = EXPERTS // config.expert_model_parallel_size
        shared = {"config": config, "bias": False, "skip_bias_add": False, "is_expert": True}
        shared["init_method"] = lambda weight: torch.nn.init.normal_(weight, std=0.2)
        self.first = torch.nn.Parameter(torch.randn(IN, IN).to(BF16))
        for name, kind, sizes in (
            ("linear_fc1", core.TEColumnParallelGroupedLinear, (IN, 2 * MIDDLE)),
            ("linear_fc2", core.TERowParallelGroupedLinear, (MIDDLE, IN)),
        ):
            base = kind(local, *sizes, **shared)
            base.is_expert = True  # as mcore_bridge/model/register.py
            if adapts:
                base.requires_grad_(False)
                alpha = {"r": RANK, "lora_alpha": scaling * RANK}
                base = lora.LoraParallelLinear(base, "default", **alpha)
            setattr(self, name, base)

    def forward(self, rows: Any, splits: list[int]) -> Any:
        """Return the experts' outputs of rows that are sorted."""
        gate, up = self.linear_fc1(noted(rows @ self.first), splits)[0].chunk(2, -1)
        return self.linear_fc2(noted(torch.nn.functional.silu(gate) * up), splits)[0]

    def sharded_state_dict(self, prefix: str = "", metadata: Any = None) -> dict[str, Any]:
        """Return what ms-swift saves of an adapter."""
        core: Any = importlib.import_module("megatron.core.dist_checkpointing")
        whole = core.ShardedTensor.from_rank_offsets(
            "first", self.first, replica_id=(0, 0, dist.get_rank())
        )
        found = {"first": whole}
        for name in ("linear_fc1", "linear_fc2"):
            module = getattr(self, name)
            found |= module.sharded_state_dict(f"{name}.", (), metadata)
        return {name: each for name, each in found.items() if ".base_layer." not in name}


def expert_state() -> Any:
    return importlib.import_module("launchers.training.experts.expert_state")


def layers(model: Any) -> list[Any]:
    """Return the layers of experts."""
    own = (model.linear_fc1, model.linear_fc2)
    return [getattr(each, "base_layer", each) for each in own]


def noted(rows: torch.Tensor) -> torch.Tensor:
    """Note how rows are made again, which either form does."""
    kept, remade = rows.detach().clone(), "launchers.training.experts.remade_rows"
    importlib.import_module(remade).note(rows, lambda: REMADE.setdefault(len(REMADE), kept))
    return rows


def configured(ep: int) -> Any:
    configs: Any = importlib.import_module("megatron.core.transformer")
    return configs.TransformerConfig(
        **{"num_layers": 1, "hidden_size": IN, "num_attention_heads": 1, "bf16": True},
        **{"params_dtype": BF16, "use_cpu_initialization": True, "gated_linear_unit": True},
        **{"num_moe_experts": EXPERTS, "expert_model_parallel_size": ep},
        **{"gradient_accumulation_fusion": False, "add_bias_linear": False},
    )


def make(
    ep: int, scaling: float = 4.0, overlaps: bool = False, clip: float = 0.0, adapts: bool = True
) -> tuple[Any, Any]:
    core: Any = importlib.import_module("megatron.core.distributed")
    optimizers: Any = importlib.import_module("megatron.core.optimizer")
    trainer: Any = importlib.import_module("swift.megatron.trainers.base")
    weights: Any = importlib.import_module("launchers.training.experts.grouped_weights")
    config = configured(ep)
    torch.manual_seed(1)
    module = Model(config, scaling, adapts)
    ddp = core.DistributedDataParallelConfig(
        **{"use_distributed_optimizer": True, "grad_reduce_in_fp32": True},
        **{"overlap_grad_reduce": overlaps, "bucket_size": 3000 if overlaps else None},
    )
    trainer.wrap = lambda module: core.DistributedDataParallel(config, ddp, module)
    [model] = trainer.wrap_model(None, [module])
    for each in layers(module):
        own = vars(each)["one_product"]
        if adapts:
            assert isinstance(own, weights.Frozen)
        elif expert_state().MADE:
            assert own.side is not None and own.gradients is not None
        else:
            vars(each).pop("one_product")
    chosen = optimizers.OptimizerConfig(
        **{"optimizer": "adam", "lr": 1e-2, "bf16": True, "use_distributed_optimizer": True},
        **{"weight_decay": 0.1, "clip_grad": clip, "params_dtype": BF16},
    )
    return optimizers.get_megatron_optimizer(chosen, [model]), model


def train(optimizer: Any, model: Any, steps: int, seed: int) -> list[float]:
    """Train on random rows, with experts that get none; return each step's gradient norm."""
    torch.manual_seed(seed)
    local, norms = layers(model.module)[0].num_gemms, []
    for _ in range(steps):
        model.zero_grad_buffer()
        for last in (False, True):
            splits = [int(each) for each in torch.randint(0, 6, (local,))]
            splits[1] = 0
            rows = torch.randn(sum(splits), IN).to(BF16)
            with contextlib.nullcontext() if last else model.no_sync():
                (model(rows, splits).float() ** 2).sum().backward()
        model.finish_grad_sync()
        is_done, norm, _ = optimizer.step()
        assert is_done
        norms.append(float(norm))
    return norms


def save(optimizer: Any, model: Any, folder: Path) -> int:
    """Save as ms-swift does; return the number of the model's entries."""
    core: Any = importlib.import_module("megatron.core.dist_checkpointing")
    utils: Any = importlib.import_module("swift.megatron.utils.megatron_lm_utils")
    metadata = utils.get_sharded_sd_metadata(None) | {"dp_cp_group": dist.group.WORLD}
    folder.mkdir(exist_ok=True)
    dist.barrier()
    state = {"model": model.module.sharded_state_dict(metadata=metadata)}
    state["optimizer"] = optimizer.sharded_state_dict(state, metadata=metadata)
    entries = len(state["model"])
    core.save(state, str(folder), strategies()[0])
    writes = background.current()
    assert writes is not None and writes.has_copied
    writes.start(STEPS, lambda: None, lambda _: None)
    if dist.get_rank() == 0:
        (folder / "forms.json").write_text(json.dumps(metadata | {"dp_cp_group": None}))
    dist.barrier()
    return entries


def load(optimizer: Any, model: Any, folder: Path) -> None:
    core: Any = importlib.import_module("megatron.core.dist_checkpointing")
    metadata = json.loads((folder / "forms.json").read_text())
    metadata |= {"dp_cp_group": dist.group.WORLD}
    wanted = {"model": model.module.sharded_state_dict(metadata=metadata)}
    wanted["optimizer"] = optimizer.sharded_state_dict(wanted, metadata=metadata, is_loading=True)
    found = core.load(wanted, str(folder), strategies()[1])
    model.module.load_state_dict(found["model"], strict=False)
    optimizer.load_state_dict(found["optimizer"])


def spoil(model: Any) -> None:
    for weight in model.parameters():
        if weight.requires_grad:
            weight.data.fill_(7.0)


def start(engine: Path, ep: int) -> Any:
    """Join the other rank; return the patch, which is not installed."""
    grouped_on_cpu.enter(engine)
    finished.end_at_exit()
    dist.init_process_group("gloo")
    state: Any = importlib.import_module("megatron.core.parallel_state")
    state.initialize_model_parallel(expert_model_parallel_size=ep)
    utils: Any = importlib.import_module("swift.megatron.utils.megatron_lm_utils")
    utils.get_sharded_sd_metadata = lambda _: dict(METADATA)
    trainer: Any = importlib.import_module("swift.megatron.trainers.base")
    trainer.wrap_model = lambda _, models: [trainer.wrap(each) for each in models]
    importlib.import_module("launchers.training.experts.grouped_product").install()
    importlib.import_module("launchers.training.saving.save_megatron").install()
    store: Any = dist.distributed_c10d._get_default_store()
    background.enable(Writes(dist.get_rank(), dist.get_world_size(), store))
    return importlib.import_module("launchers.training.experts.stacked_adapters")


def forms(*, are_made: bool) -> None:
    """Have both of our forms or none."""
    state = expert_state()
    state.MADE.clear()
    state.MADE.update({state.STACKED, state.ORDERED} if are_made else ())


class Case:
    """The same training in both forms, and a load of each of both checkpoints in each form."""

    def __init__(self, ours: Any, ep: int, folder: Path, options: dict[str, Any]) -> None:
        self.ours, self.ep, self.folder, self.options = ours, ep, folder, options
        self.middle: dict[bool, Any] = {}
        self.after: dict[bool, Any] = {}
        self.first: dict[bool, Any] = {}
        self.norms: dict[bool, list[float]] = {}
        self.entries: dict[bool, int] = {}
        self.merged: dict[bool, dict[str, torch.Tensor]] = {}
        folder.mkdir(exist_ok=True)

    def switch(self, is_stacked: bool) -> None:
        """Stack; otherwise behave as on a GPU without the kernel."""
        forms(are_made=is_stacked)
        vars(torch.cuda)["get_device_capability"] = lambda *_: (9 if is_stacked else 8, 0)

    def run(self, is_stacked: bool) -> None:
        optimizer, model = make(self.ep, **self.options)
        self.first[is_stacked] = kept_weights(model)
        self.norms[is_stacked] = train(optimizer, model, STEPS, seed=dist.get_rank())
        self.middle[is_stacked] = kept(optimizer, model)
        self.entries[is_stacked] = save(optimizer, model, self.folder / str(is_stacked))
        self.norms[is_stacked] += train(optimizer, model, STEPS, 10 + dist.get_rank())
        self.after[is_stacked] = kept(optimizer, model)
        background.finish()
        dist.barrier()
        for module in (model.module.linear_fc1, model.module.linear_fc2):
            if self.options.get("adapts", True):
                module.merge()
        names = model.module.named_parameters()
        self.merged[is_stacked] = {n: w.detach().clone() for n, w in names if "base_layer" in n}

    def resume(self, source: bool, is_stacked: bool) -> list[bool]:
        """Return whether the state that is loaded, and the course from there, are the source's."""
        self.switch(is_stacked)
        optimizer, model = make(self.ep, **self.options)
        spoil(model)
        load(optimizer, model, self.folder / str(source))
        is_same = equal(kept(optimizer, model), self.middle[source])
        train(optimizer, model, STEPS, 10 + dist.get_rank())
        return [is_same, equal(kept(optimizer, model), self.after[source])]

    def result(self) -> dict[str, Any]:
        """Return what was seen; the first run has upstream's code alone."""
        self.run(False)
        if not hasattr(self.ours, "is_installed"):
            self.ours.install()
            importlib.import_module("launchers.training.experts.expert_order").install()
            self.ours.is_installed = True
        self.switch(True)
        self.run(True)
        forms = (False, True)
        loaded = {f"{a} in {b}": self.resume(a, b) for a in forms for b in forms}
        self.switch(False)
        return {
            "first": equal(self.first[False], self.first[True]),
            "trained": equal(self.after[False], self.after[True]),
            "merged": equal(self.merged[False], self.merged[True]),
            "norms": [self.norms[form] for form in forms],
            "entries": [self.entries[form] for form in forms],
            "loaded": loaded,
        }


def layer(rank: int = RANK, bias: bool = False, **changes: Any) -> Any:
    """Return a layer with an adapter, of which something may be different."""
    core: Any = importlib.import_module("megatron.core.extensions.transformer_engine")
    lora: Any = importlib.import_module("mcore_bridge.tuners.lora")
    shared = {"config": configured(1), "skip_bias_add": False, "is_expert": True, "bias": False}
    base = core.TEColumnParallelGroupedLinear(
        EXPERTS, IN, 2 * MIDDLE, init_method=torch.nn.init.zeros_, **shared
    )
    base.is_expert = True
    vars(base.config).update(changes)
    return lora.LoraParallelLinear(base, "default", r=rank, lora_bias=bias)


def left(ours: Any) -> dict[str, Any]:
    """Return which layers are left to upstream, and whether a view is of the stack."""
    forms(are_made=True)
    layers = {
        "shipped": layer(),
        "a rank of 12": layer(rank=12),
        "a bias": layer(bias=True),
        "fp8": layer(fp8="hybrid"),
        "not bf16": layer(bf16=False),
    }
    found: dict[str, Any] = {
        name: [
            isinstance(side, ours.Stacked)
            for side in (each.lora_A["default"], each.lora_B["default"])
        ]
        for name, each in layers.items()
    }
    module = layers["shipped"].lora_A["default"]
    module.weight3.data.copy_(torch.ones(RANK, IN))  # as mcore-bridge reads an adapter
    found["view"] = bool((module.weight[3] == 1).all()) and not hasattr(module, "weightless")
    return found


def plain(ours: Any, scaling: float) -> bool:
    """Return whether an adapter of attention has upstream's outputs and gradients."""
    forms(are_made=True)
    lora: Any = importlib.import_module("mcore_bridge.tuners.lora")

    def forward(self: Any, rows: Any) -> Any:
        outputs = rows @ self.weight.T
        return (
            ((outputs, rows), None) if hasattr(self, "return_layernorm_output") else (outputs, None)
        )

    kinds = ("TELinear", "TELayerNormColumnParallelLinear")
    single, normed = (type(name, (torch.nn.Module,), {"forward": forward}) for name in kinds)
    for module in (lora, ours):
        vars(module).update(zip(kinds, (single, normed), strict=True))

    def linear(kind: Any, inputs: int, outputs: int) -> Any:
        made = kind()
        made.weight = torch.nn.Parameter(torch.randn(outputs, inputs).to(BF16))
        made.use_bias, made.config = False, configured(1)
        return made

    def seen(call: Any, base: Any, sides: list[Any], rows: Any) -> list[Any]:
        owner: Any = torch.nn.Module()
        owner.base_layer, owner.config, owner.active_adapters = base, configured(1), ["default"]
        owner.lora_A, owner.lora_B = ({"default": side} for side in sides)
        owner.lora_dropout, owner.scaling = {"default": torch.nn.Identity()}, {"default": scaling}
        owner.disable_adapters = owner.merged = False
        outputs, _ = call(owner, rows)
        own = [rows, *(side.weight for side in sides)]
        return [outputs, *torch.autograd.grad((outputs.float() ** 2).sum(), own)]

    found = []
    for kind in (single, normed):
        base, sides = linear(kind, IN, 24), [linear(single, IN, RANK), linear(single, RANK, 24)]
        base.weight.requires_grad_(False)
        rows = torch.randn(7, 1, IN).to(BF16).requires_grad_()
        one, other = (seen(call, base, sides, rows) for call in (ours._forward, ours.forward))
        found += [torch.equal(*pair) for pair in zip(one, other, strict=True)]
        found.append("Sum" in type(other[0].grad_fn).__name__)
    return all(found)


def main() -> None:
    folder, ep = Path(sys.argv[1]), int(sys.argv[3])
    ours = start(Path(sys.argv[2]), ep)
    found = {n: Case(ours, ep, folder / n, each).result() for n, each in CASES.items()}
    plainly = [plain(ours, scaling) for scaling in (4.0, 3.0)]
    more = {"left": left(ours), "plain": plainly, "remade": bool(REMADE)}
    print(json.dumps(found | more), flush=True)


if __name__ == "__main__":
    main()
