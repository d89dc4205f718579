"""Packed DPO on transformers with equal weights, compared with the same pairs unpacked, on CPU.

Run by the training Python. Trainer, collator, loss and model (a small Qwen3 that attends within the
texts of a pack) are the real ones; two processes are run one after the other and their gradients
averaged. Each thing that holds is printed.
"""

import contextlib
import importlib
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch

from tests.launchers.training import edge
from tests.launchers.training.edge import shown
from tests.launchers.training.packs.gather_packs import Batches, furthest, pair, template

SIZES = ((1, 6, 2), (4, 1, 3))
"""Pairs of each batch of a step, for each process."""
WORDS = 64


def batch(rows: list[Any]) -> dict[str, Any]:
    mine = template()
    mine.use_megatron = False
    made = mine.data_collator([rows])
    return {name: made[name] for name in ("input_ids", "labels", "position_ids")}


def model(seed: int) -> Any:
    transformers = importlib.import_module("transformers")
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "head_dim": 8}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": WORDS}
    config = transformers.Qwen3Config(**sizes, **heads, attn_implementation="sdpa")
    return transformers.Qwen3ForCausalLM(config)


class WithAux(torch.nn.Module):  # type: ignore[misc]
    """A model that has an auxiliary loss, of its last layer's weights."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, output_router_logits: bool = False, **given: Any) -> Any:
        found = self.inner(**given)
        found.aux_loss = self.inner.lm_head.weight.square().sum()
        return found


def trainer(steps: int, processes: int, pairs: int, **changed: Any) -> Any:
    """Return ms-swift's trainer with what a step needs."""
    found = object.__new__(DPOTrainer)
    vars(found).update(
        **{"label_smoothing": 0.0, "loss_type": ["sigmoid"], "loss_weights": None, "beta": 0.1},
        **{"f_divergence_type": "reverse_kl", "f_divergence_params": {}, "reference_free": False},
        **{"use_weighting": False, "label_pad_token_id": -100, "is_encoder_decoder": False},
        **{"aux_loss_enabled": False, "aux_loss_coef": 0.01, "compute_loss_func": None},
        _peft_has_been_casted_to_bf16=False,
        optimizer=None,
        ref_model=model(2),
        _stored_metrics=defaultdict(lambda: defaultdict(list)),
        _get_num_items_in_batch=lambda batches, device: torch.tensor(99),
        _prepare_context_parallel_inputs=lambda model, inputs: (contextlib.nullcontext, inputs),
        _prepare_inputs=lambda inputs: inputs,
        compute_loss_context_manager=contextlib.nullcontext,
        get_use_logits_to_keep=lambda default: False,
        model_accepts_loss_kwargs=changed.get("accepts", True),
        template=SimpleNamespace(padding_free=True, packing=True, sequence_parallel_size=1),
        args=SimpleNamespace(
            **{"rpo_alpha": changed.get("alpha"), "ld_alpha": None, "device": "cpu"},
            **{"gradient_accumulation_steps": steps, "torch_empty_cache_steps": None},
            **{"optim": "adamw_torch", "n_gpu": 1},
        ),
        accelerator=SimpleNamespace(
            **{"num_processes": processes, "device": torch.device("cpu")},
            **{"distributed_type": "NO", "gather_for_metrics": lambda values: values},
            reduce=lambda own, reduction: reduced(own, reduction, pairs),
            gather=lambda own: torch.tensor([pairs / processes]),
            backward=lambda loss, **_: loss.backward(),
        ),
    )
    if changed.get("aux"):
        found.aux_loss_enabled, found.ref_model = True, WithAux(found.ref_model)
    return found


def reduced(own: Any, reduction: str, pairs: int) -> Any:
    """Return the sum over the processes, of which this one has a part."""
    assert reduction == "sum" and 0 < int(own) <= pairs
    return torch.tensor(pairs)


def step(of_processes: list[Batches], window: int, **changed: Any) -> tuple[Any, float]:
    """Train one step; return the gradients and the loss that transformers would log."""
    base = importlib.import_module("transformers").Trainer
    ends = [int((each["position_ids"] == 0).sum()) for of in of_processes for each in of]
    policy, logged = model(1), 0.0
    run_model = WithAux(policy) if changed.get("aux") else policy
    for batches in of_processes:
        run = trainer(window, len(of_processes), sum(ends) // 2, **changed)
        taken, items = run.get_batch_samples(iter(batches), window, "cpu")
        run.current_gradient_accumulation_steps = len(taken)
        for each in taken:
            loss = base.training_step(run, run_model, dict(each), items)
            logged += float(loss) / len(of_processes)
    gradients = {name: each.grad / len(of_processes) for name, each in policy.named_parameters()}
    return gradients, logged


def main() -> None:
    """Compare upstream's unpacked pairs with packed ones, before and after the installation."""
    chance = torch.Generator().manual_seed(5)
    rows = [[[pair(chance, WORDS) for _ in range(size)] for size in sizes] for sizes in SIZES]
    packed = [[batch(pack) for pack in packs] for packs in rows]
    alone = [[batch([row]) for packs in rows for pack in packs for row in pack]]
    count = len(alone[0])
    alphas = (None, 0.5)
    wanted = {alpha: step(alone, count, alpha=alpha) for alpha in alphas}
    cases = [(w, a, k) for w in (3, 5) for a in alphas for k in (True, False)]
    before = {case: step(packed, case[0], alpha=case[1], accepts=case[2]) for case in cases}
    with_aux = step(packed, 3, aux=True)[0]["lm_head.weight"]
    added = with_aux - before[3, None, True][0]["lm_head.weight"]
    shown("by pack they differ", furthest(wanted[0.5][0], before[3, 0.5, True][0]) > 1e-2)
    scale = before[5, None, True][1] / before[3, None, True][1]
    print("upstream's scale of a step of fewer batches", round(scale, 6))
    loading.install("pair_weights_transformers")
    equal = {}
    for case in cases:
        window, alpha, accepts = case
        gradients, loss = equal[case] = step(packed, window, alpha=alpha, accepts=accepts)
        found, lost = furthest(wanted[alpha][0], gradients), abs(loss - wanted[alpha][1])
        name = f"window {window} alpha {alpha} accepts {accepts}"
        shown(f"{name}: as unpacked", found < 5e-6 and lost < 1e-6, found, lost)
    with_aux = step(packed, 3, aux=True)[0]["lm_head.weight"]
    again = with_aux - equal[3, None, True][0]["lm_head.weight"]
    shown("the auxiliary loss keeps its weight", furthest({"": added}, {"": again}) < 1e-4)


if __name__ == "__main__":
    loading: Any = importlib.import_module("launchers.training.loading")
    DPOTrainer: Any = importlib.import_module("swift.rlhf_trainers.dpo_trainer").DPOTrainer
    main()
    edge.end()
