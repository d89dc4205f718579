"""Everything that the reference's log-probabilities depend on: equal facts share one store.

The names and values must not change: runs and stores made before are recognised by them. Stores and
runs made before ``ADDED`` facts existed lack these; ``run_store`` lets such a run resume.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launchers.config.sources import split_count
from launchers.config.workspace import Workspace
from launchers.flags.external_plugins import users_plugins
from launchers.reference.policy import original
from launchers.storage import manifest
from launchers.system import lookup
from launchers.training.tokens import fingerprint as tokens
from launchers.upstream import code_identity
from launchers.upstream.record import LAUNCHER, PACKAGES

SAMPLE = 2**20
"""Bytes read at the start, middle and end of a weight file."""

ARGUMENTS = (
    # the pairs' tokens
    "template", "system", "max_length", "truncation_strategy", "agent_template",
    "use_chat_template", "template_backend", "response_prefix", "enable_thinking",
    "preserve_thinking", "add_non_thinking_prefix", "disable_ignore_empty_think", "loss_scale",
    "padding_side", "columns", "split_dataset_ratio", "data_seed", "model_name", "model_author",
    "interleave_prob", "stopping_strategy", "dataset_shuffle", "new_special_tokens",
    # how they are put together
    "packing", "packing_length", "packing_strategy", "padding_free",
    # the arithmetic
    "torch_dtype", "fp8_format", "fp8_recipe", "attention_backend", "rope_scaling",
    "moe_expert_capacity_factor", "megatron_extra_kwargs",
)  # fmt: skip
"""Arguments of ms-swift that change the numbers or the pairs, in addition to the files'
contents."""

ROUNDING = (
    # the order of sums: which tokens and which parts of a matrix are on one GPU
    "tensor_model_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size",
    "context_parallel_size", "sequence_parallel", "tp_comm_overlap", "moe_token_dispatcher_type",
    "moe_enable_deepep", "moe_shared_expert_overlap", "moe_pad_expert_input_to_capacity",
    "moe_token_drop_policy",
    # the kernels
    "attn_impl", "attention_softmax_in_fp32", "masked_softmax_fusion", "apply_rope_fusion",
    "bias_dropout_fusion", "bias_activation_fusion", "moe_grouped_gemm", "moe_permute_fusion",
    "cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "moe_router_dtype", "bf16", "fp16",
    "fp8_param_gather", "fp4_format", "fp4_recipe", "fp4_param_gather",
)  # fmt: skip
"""Arguments of ms-swift that change how the same numbers are rounded."""
LATER = (
    # the loader of the model, and with it template and architecture
    "model_type",
    # packs in one forward pass; scales of fp8, which depend on the passes before; the router
    "micro_batch_size",
    "fp8_amax_history_len",
    "fp8_amax_compute_algo",
    "moe_router_load_balancing_type",
)
"""Arguments of ms-swift that change the numbers, and that stores had not had at first."""
FEATURES = ("equal_packs", "grouped_product", "pack_lengths", "prompt_once", "rank_order")
"""The launcher's features that compute the forward pass with other kernels, or on other padding."""
_KERNELS = re.compile(
    r"NVTE_(?!DEBUG)\w+|NCCL_(ALGO|PROTO|NVLS_ENABLE)|CUBLAS_WORKSPACE_CONFIG"
    r"|CUBLASLT_WORKSPACE_SIZE|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
)
"""Environment variables that choose kernels, or the order in which ranks add."""
CODE = ("launcher", "code")
"""Facts that may differ after a resume: a run keeps the numbers that it began with."""
ADDED = (*ROUNDING, *LATER, *PACKAGES[1:], "features", "GPU", "kernels", *CODE)
"""Facts that stores had not had at first: a run with Transformer Engine 2.12.0 found the store of
2.16.1, and its first loss was 0.692919 instead of ln 2 (tests/bench/notes/stack.md)."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Software and hardware that compute the numbers, apart from ms-swift's arguments."""

    versions: Mapping[str, str]
    """By the names of ``PACKAGES``; empty for a package that is not installed."""
    gpu: str = ""
    """The model's name, as CUDA writes it."""
    features: Sequence[str] = ()
    """The launcher's installed features."""
    env: Mapping[str, str] = field(default_factory=dict)

    def facts(self) -> dict[str, str]:
        """Return them by name."""
        chosen = sorted(f"{k}={v}" for k, v in self.env.items() if _KERNELS.fullmatch(k))
        return {
            **{name: self.versions.get(name, "") for name in PACKAGES},
            "features": " ".join(name for name in FEATURES if name in self.features),
            "GPU": self.gpu,
            "kernels": " ".join(chosen),
        }


def facts_of(args: object, home: Path, machine: Machine) -> dict[str, str]:
    """Return everything that the numbers depend on, by name.

    The launcher's own plugins are left out: they change no token.
    The launcher notes the digests of its downloads in ``home``.

    Raises:
        LaunchError: IO if the storage does not answer.
    """
    arguments = {name: _word(getattr(args, name, None)) for name in (*ARGUMENTS, *ROUNDING, *LATER)}
    sets = [*_list(args, "dataset"), "|", *_list(args, "val_dataset")]
    cached = [*_list(args, "cached_dataset"), "|", *_list(args, "cached_val_dataset")]
    plugins = users_plugins(_list(args, "external_plugins"))
    code = code_identity.identity(PACKAGES, plugins=map(Path, plugins))
    return {
        **arguments,
        "model": digest_of(original(args), SAMPLE),
        "downloads": downloads(home),
        "data": _sum(*map(_dataset, sets)),
        "cached data": _sum(*map(_dataset, cached)),
        "plugins": _sum(
            *(json.dumps(tokens.code(Path(each))) for each in plugins),
            *(digest_of(Path(each)) for each in _list(args, "custom_dataset_info")),
        ),
        **machine.facts(),
        "launcher": str(code.pop(LAUNCHER)),
        "code": code_identity.name(code),
    }


def downloads(home: Path) -> str:
    """Return a digest of the model and datasets as the download stage has verified them.

    Without a launcher it is empty: two models that differ only in some layers may then look the
    same by ``SAMPLE``.
    """
    text = lookup.text(Workspace.of(home).inputs)
    if text is None:
        return ""
    noted = json.loads(text)
    return _sum(*(f"{k} {v}" for k, v in sorted(noted.items()) if k.startswith("download ")))


def store_name(facts: Mapping[str, str]) -> str:
    """Return the name of the store of these facts.

    >>> store_name({"a": "1", "b": "2"}) == store_name({"b": "2", "a": "1"})
    True
    """
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()[:32]


def digest_of(path: Path, sample: int = 0) -> str:
    """Return a digest of a file's or folder's contents.

    A name that does not exist is its own digest; ``sample`` 0 reads all of a large file.
    """
    if lookup.is_file(path):
        return _file(path, sample)
    if not lookup.is_dir(path):
        return f"name {path}"
    files = {p.relative_to(path): p for p in sorted(manifest.files(path)) if lookup.is_file(p)}
    seen = {name: p for name, p in files.items() if ".cache" not in name.parts}
    return _sum(*(word for name, p in seen.items() for word in (str(name), _file(p, sample))))


def _file(path: Path, sample: int) -> str:
    return lookup.certain(lambda: _digest(path, sample), path) or f"name {path}"


def _digest(path: Path, sample: int) -> str:
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode() + b"\0")
    with path.open("rb") as handle:
        if not sample or size <= 3 * sample:
            while chunk := handle.read(SAMPLE):
                digest.update(chunk)
        else:
            for start in (0, (size - sample) // 2, size - sample):
                handle.seek(start)
                digest.update(handle.read(sample))
    return digest.hexdigest()


def _dataset(text: str) -> str:
    """Return the digest of a dataset and its number of samples (``path#500``)."""
    path = tokens.path_of(text)
    return f"{digest_of(path)}#{'' if path == Path(text) else split_count(text)[1]}"


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the differences between two sets of facts as text; empty if there are none.

    >>> differences({"max_length": "4096", "x": "1"}, {"max_length": "8192", "x": "1"})
    'max_length was 4096 and is 8192'
    """
    names = sorted(set(before) | set(now))
    listed = [(n, before.get(n, "not given"), now.get(n, "not given")) for n in names]
    return ", ".join(f"{n} was {old} and is {new}" for n, old, new in listed if old != new)


def _list(args: object, name: str) -> Sequence[str]:
    return [str(value) for value in getattr(args, name, None) or []]


def _word(value: object) -> str:
    """Return an argument as text; an enum by its name."""
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, default=str)
    return str(getattr(value, "name", value))


def _sum(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()
