"""Experts' rows and calls of Transformer Engine as they are with our features and without, on CPU.

Transformer Engine's kernels are stood in for by what they compute; megatron-core's own functions
without kernels are what ours must equal, bit by bit in fp32.
"""

import contextlib
import importlib
import os
import sys
import types
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from tests.launchers.training import megatron_on_cpu
from tests.launchers.training.edge import end, shown

TOKENS, HIDDEN, EXPERTS = 11, 4, 6
PLACES = "transformer_engine.pytorch"


def row_map(routed: torch.Tensor, tokens: int, experts: int) -> torch.Tensor:
    """Return of each token its rows, then their experts, then how many there are."""
    found = torch.full((tokens, 2 * experts + 1), -1, dtype=torch.int32)
    rows = iter(range(int(routed.sum())))
    places = {(int(t), int(e)): next(rows) for e, t in routed.T.nonzero()}
    for token in range(tokens):
        own = [(row, e) for (t, e), row in places.items() if t == token]
        for n, (row, expert) in enumerate(own):
            found[token, n], found[token, experts + n] = row, expert
        found[token, -1] = len(own)
    return found


def _pairs(where: torch.Tensor, experts: int) -> list[tuple[int, int, int]]:
    lists = [(t, [*map(int, each)]) for t, each in enumerate(where)]
    return [(t, w[n], w[experts + n]) for t, w in lists for n in range(w[-1])]


def permuted(
    *, inp: Any, row_id_map: Any, probs: Any, num_experts: int, num_out_tokens: int, **_: Any
) -> tuple[Any, None, Any]:
    rows = inp.new_zeros(num_out_tokens, inp.shape[1])
    found = None if probs is None else probs.new_zeros(num_out_tokens)
    for token, row, expert in _pairs(row_id_map, num_experts):
        rows[row] = inp[token]
        if found is not None:
            found[row] = probs[token, expert]
    return rows, None, found


def unpermuted(
    *, inp: Any, row_id_map: Any, permuted_probs: Any, num_tokens: int, num_experts: int, **_: Any
) -> tuple[Any, Any]:
    tokens = inp.new_zeros(num_tokens, inp.shape[1])
    probs = None if permuted_probs is None else inp.new_zeros(num_tokens, num_experts)
    for token, row, expert in _pairs(row_id_map, num_experts):
        tokens[token] += inp[row]
        if probs is not None:
            probs[token, expert] = permuted_probs[row]
    return tokens, probs


class Operation(torch.nn.Module):  # type: ignore[misc]
    """Stands for Transformer Engine's norm: twice the rows, times its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))

    def op_forward(self, ctx: Any, rows: Any, *_: Any) -> Any:
        if ctx.requires_grad:
            ctx.save_for_backward(rows)
        return 2 * rows * self.weight

    def op_backward(self, ctx: Any, grad: Any) -> Any:
        [rows] = ctx.saved_tensors
        return 2 * grad * self.weight, ((2 * grad * rows).sum(0),)

    def forward(self, rows: Any) -> Any:
        return 2 * rows * self.weight


class Context:
    """Stands for the context of an operation."""

    requires_grad = True
    saved_tensors = to_save = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors


def stand_in() -> None:
    """Put the stand-ins where our modules import them from."""
    layout = {"get_qkv_layout": lambda *_, **__: "upstream's"}
    modules: dict[str, dict[str, Any]] = {
        "triton": {},
        "triton.permutation": {
            "make_row_id_map": row_map,
            "permute_with_mask_map": permuted,
            "unpermute_with_mask_map": unpermuted,
        },
        "ops": {},
        "ops.op": {"OperationContext": Context},
        "attention.dot_product_attention": {},
        "attention.dot_product_attention.utils": layout,
    }
    for name, found in modules.items():
        module = types.ModuleType(f"{PLACES}.{name}")
        vars(module).update(found, __path__=[])
        sys.modules[module.__name__] = module
        parent, _, last = module.__name__.rpartition(".")
        setattr(sys.modules[parent], last, module)
    vars(sys.modules[PLACES])["RMSNorm"] = Operation
    # both ways to import a module find the same one
    vars(sys.modules["transformer_engine"])["pytorch"] = sys.modules[PLACES]


def drawn() -> tuple[Any, Any, Any]:
    chance = torch.Generator().manual_seed(3)
    tokens = torch.randn(TOKENS, HIDDEN, generator=chance).requires_grad_()
    probs = torch.rand(TOKENS, EXPERTS, generator=chance).requires_grad_()
    return tokens, probs, torch.rand(TOKENS, EXPERTS, generator=chance) > 0.6


def move(permute: Any, unpermute: Any, fused: bool) -> list[Any]:
    """Return rows, probabilities, tokens and gradients of a way there and back."""
    tokens, probs, routed = drawn()
    count = int(routed.sum())
    rows, own, where, *_ = permute(tokens, routed, probs=probs, num_out_tokens=count, fused=fused)
    back = unpermute(rows * own[:, None], where, tokens.shape, routing_map=routed, fused=fused)
    return [rows, own, back, *torch.autograd.grad((back**2).sum(), (tokens, probs))]


def move_rows() -> None:
    moved: Any = importlib.import_module("launchers.training.experts.moved_rows")
    remade: Any = importlib.import_module("launchers.training.experts.remade_rows")
    theirs = move(moved._permute, moved._unpermute, fused=False)
    moved.install()
    first = move_forward(moved.dispatcher)
    shown("rows that upstream's products keep do not know how", remade.again(first) is None)
    remade.enable()
    dispatcher: Any = importlib.import_module("megatron.core.transformer.moe.token_dispatcher")
    ours = move(dispatcher.permute, dispatcher.unpermute, fused=True)
    same = [*map(torch.equal, theirs, ours)]
    shown("rows, sums and gradients are upstream's", all(same), same)
    again = remade.again(ours[0])
    shown("rows are made again", again is not None and torch.equal(again(), ours[0]))
    with torch.no_grad():
        passing = move_forward(dispatcher)
    shown("nor do rows without gradients", remade.again(passing) is None)
    checkpoint: Any = importlib.import_module("megatron.core.tensor_parallel.random")
    checkpoint._set_checkpointing()
    passing = move_forward(dispatcher)
    checkpoint._unset_checkpointing()
    shown("nor do those of a layer that is recomputed", remade.again(passing) is None)
    experts: Any = importlib.import_module("megatron.core.transformer.moe.experts")
    rows, weights = torch.randn(5, 8, requires_grad=True), torch.rand(5, 1)
    made = experts.weighted_bias_swiglu_impl(rows, None, weights, False)
    again = remade.again(made)
    shown("activations are made again", again is not None and torch.equal(again(), made))
    other = experts.weighted_bias_swiglu_impl(rows, None, weights, True)
    shown("but not of inputs that are kept in 8 bits", remade.again(other) is None)


def move_forward(dispatcher: Any) -> Any:
    tokens, _, routed = drawn()
    return dispatcher.permute(tokens, routed, num_out_tokens=int(routed.sum()), fused=True)[0]


def remember() -> None:
    """Run a function twice, as the recomputation of a layer does, with what it counts."""
    random: Any = importlib.import_module("megatron.core.tensor_parallel.random")
    random._get_all_rng_states, random._fork_rng = tuple, contextlib.nullcontext
    random._set_all_rng_states = lambda *_: None
    early: Any = importlib.import_module("launchers.training.experts.early_counts")
    parallel: Any = importlib.import_module("megatron.core.tensor_parallel")
    early.install()
    found: list[int] = []

    def count() -> Any:
        found.append(len(found))
        return found[-1]

    seen: list[Any] = []

    def layer(rows: Any) -> Any:
        memory = early.Memory.running
        seen.append([memory.next(count), memory.next(count)])
        return rows * 2

    given = [torch.ones(2, requires_grad=True) for _ in range(2)]
    made = [parallel.checkpoint(layer, False, each) for each in given]
    shown("nothing is remembered outside", early.Memory.running is None)
    sum(made).sum().backward()
    # the second layer runs again before the first
    shown("a layer has its own counts again", seen == [[0, 1], [2, 3], [2, 3], [0, 1]], seen)


def call() -> None:
    calls: Any = importlib.import_module("launchers.training.packs.engine_calls")
    upstream = Operation()
    rows = [torch.randn(3, 4, generator=torch.Generator().manual_seed(2)) for _ in range(2)]
    theirs = upstream(rows[0].requires_grad_())
    theirs.sum().backward()
    gradients = rows[0].grad, upstream.weight.grad
    calls.install()
    ours = Operation()
    made = ours(rows[1].requires_grad_())
    made.sum().backward()
    same = [*map(torch.equal, (made, rows[1].grad, ours.weight.grad), (theirs, *gradients))]
    shown("a norm's outputs and gradients are upstream's", all(same), same)
    shown("it keeps nothing after its backward pass", made.grad_fn.inner.saved_tensors is None)
    with torch.no_grad():
        shown("without gradients, too", torch.equal(ours(rows[1]), theirs))
    utils = calls.utils
    wide = torch.randn(5, 2, 12)
    q, k, v = torch.randn(5, 2, 4), torch.randn(5, 2, 4), wide[..., 8:]
    layout, *found = utils.get_qkv_layout(q, k, v, qkv_format="thd")
    same = [torch.equal(*pair) for pair in zip(found[:3], (q, k, v), strict=True)]
    shown("three tensors have one layout", layout == "thd_thd_thd" and all(same), layout)
    shown("and are contiguous", all(each.is_contiguous() for each in found[:3]))
    for name, given in (("parts of one", (*wide.chunk(3, -1), "thd")), ("rows", (q, k, v, "sbhd"))):
        shown(f"{name}: upstream decides", utils.get_qkv_layout(*given) == "upstream's")


class Layer(torch.nn.Module):  # type: ignore[misc]
    """Stands for a layer with an adapter."""

    _disable_adapters = False

    @property
    def disable_adapters(self) -> bool:
        return self._disable_adapters

    def enable_adapters(self, _: bool) -> None:
        raise AssertionError("the flag is enough")


def switch() -> None:
    switches: Any = importlib.import_module("launchers.training.experts.adapter_switch")
    switches.LoraParallelLinear = Layer
    model = torch.nn.Sequential(Layer(), torch.nn.Linear(2, 2), Layer())
    args = SimpleNamespace(tuner_type="lora", mcore_ref_adapter=None, ref_adapters=None)
    trainer = SimpleNamespace(args=args, peft_models=[model], unwrapped_models=[model])
    with torch.no_grad(), switches.null_ref_context(trainer) as models:
        off = [model[0].disable_adapters, model[2].disable_adapters]
    on = [model[0].disable_adapters, model[2].disable_adapters]
    shown("adapters are off for the reference", off == [True, True] and models == [model])
    shown("and on again", on == [False, False])
    asked: list[Any] = []

    @contextlib.contextmanager
    def upstream(asking: Any) -> Iterator[None]:
        asked.append(asking)
        yield

    switches._upstream = upstream
    others = [
        SimpleNamespace(**vars(trainer) | {"args": SimpleNamespace(**vars(args) | change)})
        for change in ({"ref_adapters": ["a"]}, {"mcore_ref_adapter": "a"}, {"tuner_type": "full"})
    ]
    for other in others:
        vars(other).pop("_switched_layers", None)
        with torch.no_grad(), switches.null_ref_context(other):
            pass
    with switches.null_ref_context(trainer):  # with gradients
        pass
    shown("others are upstream's", asked == [*others, trainer])


def main() -> None:
    stand_in()
    move_rows()
    remember()
    call()
    switch()


if __name__ == "__main__":
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # a compiler takes half a minute
    megatron_on_cpu.enter()
    main()
    end()
