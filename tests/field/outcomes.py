"""Cases of models, queues, values and messages that people reported, and the right outcome of each.

`python -m tests.field.outcomes` prints id, verdict and right outcome; 1 if one is wrong.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from scripts.plan.inputs import known_models
from tests.attribution.corpus import load
from tests.field import judges
from tests.field.judges import Judge, Outcome, alone, checked, fetched, rendered, ruled, sized, why
from tests.scripts.observe.planted import pending, suspended, view
from tests.scripts.why.admission import LATE, admitted

SIZES = known_models()[judges.MOE]
BILLIONS = "30.5"
LEVEL = "couldn't assign flavors to pod set node: no topology domains at level: example.com/rack"
OTHER_SIZES = "65 config.json of the model: num_experts_per_tok has 2 different sizes"
BAD = {
    ("M1", "a file of the index is missing"): ("model-shard-missing", judges.one),
    ("M4", "a cut file"): ("model-file-cut", judges.cut),
    ("M4", "a git-lfs pointer"): ("model-lfs-pointer", judges.pointer),
    ("M7", "an adapter"): ("model-is-adapter", alone("adapter_config.json")),
    ("M7", "an output folder"): ("model-is-output", alone("v0/checkpoint-9/config.json")),
    ("M7", "Megatron's format"): ("model-is-megatron", alone("iter_0000100/x.pt")),
}
UNTIED = {"tie_word_embeddings": False}


def of(table: Mapping[tuple[str, str, str], Judge]) -> Iterator[Outcome]:
    """Yield cases by id, what they are and the right outcome."""
    for (id, what, right), judge in table.items():
        yield Outcome(id=id, what=what, right=right, judge=judge)


def models() -> Iterator[Outcome]:
    for backend in ("megatron", "transformers"):
        for (id, what), (right, change) in BAD.items():
            right, judge = f"65 model {right}", checked(change, backend)
            yield Outcome(id=id, what=f"{what}, {backend}", right=right, judge=judge)
        headless = checked(judges.nothing, backend, **UNTIED)
        right = "65 model model-head-missing"
        yield Outcome(id="M2", what=f"no head, {backend}", right=right, judge=headless)
        whole = checked(judges.nothing, backend)
        unsized = checked(judges.nothing, backend, num_hidden_layers=None)
        right = "accepted" if backend == "transformers" else "65 model model-size-missing"
        yield Outcome(id="M13", what=f"no number of layers, {backend}", right=right, judge=unsized)
        yield Outcome(id="M0", what=f"a whole model, {backend}", right="accepted", judge=whole)
    shards = ("model-1.safetensors", "model-2.safetensors")
    yield from of(
        {
            ("M9", "gpt_oss, packing", "template-packing"): rendered(
                template="gpt_oss", packing=True
            ),
            ("M9", "gpt-oss without a template", "template-packing"): ruled(
                {}, architectures=["GptOssForCausalLM"]
            ),
            ("M10", "original/", " ".join(shards)): fetched(*shards, "original/a.safetensors"),
            ("M12", "odd names", "a.safetensors"): fetched("a.safetensors"),
            ("M13", "layers for MTP", f"{BILLIONS} num_mtp_modules"): sized(
                **SIZES, num_mtp_modules=1
            ),
            ("M15", "llm_config", BILLIONS): sized(llm_config=SIZES),
            ("M15", "thinker_config", BILLIONS): sized(thinker_config={"text_config": SIZES}),
            ("M15", "equal sizes", BILLIONS): sized(**SIZES | {"num_experts_per_tok": [8] * 48}),
            ("M15", "other sizes", OTHER_SIZES): sized(**SIZES | {"num_experts_per_tok": [4, 8]}),
            ("M16", "images, reference once", "precomputed-multimodal"): ruled(
                {"recipe.reference": "precomputed"}, vision_config={"depth": 1}
            ),
            ("M17", "65 GiB published, length not given", "fits"): judges.fits(None),
            ("M17", "65 GiB published, 1,200 tokens", "fits"): judges.fits(1200),
        }
    )


def queues() -> Iterator[Outcome]:
    level = view(suspended(), workloads=[pending(LEVEL, "TopologyPlacementFailed")])
    late = view(suspended(), workloads=[admitted(LATE)])
    yield from of(
        {
            ("K1", "no domains at level", "topology-does-not-fit"): why(
                level, "no node", "label example.com/rack"
            ),
            ("K3", "evicted, admission held", "evicted-pods-ready-timeout"): why(
                judges.held(), "quota is still held", "start faster"
            ),
            ("K4", "admitted for hours", "admitted-suspended"): why(late, "log of its controller"),
            ("K5", "MultiKueue", "runs-elsewhere"): why(
                judges.elsewhere(), "cluster worker-1", "--context"
            ),
        }
    )


def values() -> Iterator[Outcome]:
    renamed = rendered(train_type="full", max_epochs=1)
    by_hand = judges.with_env("MASTER_ADDR", "127.0.0.1")
    yield from of(
        {
            ("V1", "names of ms-swift 3", "flag-renamed"): renamed,
            ("V2", "MASTER_ADDR by hand", "env-reserved"): by_hand,
            ("V3", "fp8 on A100", "format-gpu-model"): judges.on_gpu("a100-80g", fp8_format="e4m3"),
        }
    )


def messages() -> Iterator[Outcome]:
    for each in load():
        if each.part == "field":
            right = f"{each.failure_class} {int(each.code)}"
            yield Outcome(id="A", what=each.source, right=right, judge=judges.attributed(each))


def all_cases() -> list[Outcome]:
    return [*models(), *queues(), *values(), *messages()]


def main() -> int:
    wrong, shown = 0, Table("id", "case", "verdict", "right outcome")
    for each in all_cases():
        with tempfile.TemporaryDirectory() as folder:
            verdict = each.judge(Path(folder))
        wrong += verdict != each.right
        shown.add_row(each.id, each.what, verdict, each.right)
    console = Console(width=160)
    console.print(shown)
    console.print(f"{len(shown.rows) - wrong} of {len(shown.rows)} right")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
