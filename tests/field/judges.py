"""Judges of the cases in `outcomes.py`: each gives the product a case and returns its verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launchers.config.flag_value import Value
from launchers.config.recipe import Recipe
from launchers.config.sources import parse_source
from launchers.exits import LaunchError
from launchers.hub.client import HubFile, Listing
from launchers.hub.fetch import INDEX, indexed, select_files
from launchers.inputs import model_files
from launchers.plan import plan as planning
from launchers.plan.model_config import parse_config
from launchers.plan.run_length import Data
from launchers.plan.step_time import Link
from launchers.rules import table
from scripts.observe.view import View
from scripts.plan.inputs import known_models
from scripts.why.reasons import explain
from tests.attribution.corpus import Case
from tests.chart import helm
from tests.launchers import model_folder
from tests.launchers.model_folder import ONE, POINTER, TWO, WHOLE
from tests.refusals import printed
from tests.scripts.observe.planted import evicted, jobset, suspended, view, workload

Judge = Callable[[Path], str]
MOE = "Qwen3-30B-A3B"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    id: str
    what: str
    right: str
    judge: Judge
    """Returns the verdict, given an empty folder."""


def checked(change: Callable[[Path], object], backend: Any = "megatron", **config: Any) -> Judge:
    """Return the judge of a model's folder with a change: exit code and id, or `accepted`."""

    def judge(folder: Path) -> str:
        model = model_folder.write(folder / "m", **config)
        change(model)
        recipe = Recipe(backend=backend, task="rlhf", model=f"file://{model}", dataset=(), args={})
        try:
            model_files.check_folder(model, "m", recipe)
        except LaunchError as error:
            return f"{int(error.code)} {error.failure_class} {error.id}"
        return "accepted"

    return judge


def alone(name: str) -> Callable[[Path], object]:
    """Return a change after which a folder holds one file only."""

    def change(model: Path) -> None:
        for file in model.iterdir():
            file.unlink()
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_text("{}")

    return change


def one(model: Path) -> None:
    """Leave out a file that the index names."""
    model_folder.split(model, [ONE])


def pointer(model: Path) -> None:
    """Leave a pointer of git-lfs in place of the weights."""
    (model / WHOLE).write_text(POINTER)


def cut(model: Path) -> None:
    file = model_folder.split(model) / TWO
    file.write_bytes(file.read_bytes()[:40])


def rendered(**args: Any) -> Judge:
    """Return the ids with which the chart refuses flags, or `accepted`."""
    return _rendered({"recipe": {"args": args}})


def with_env(name: str, value: str) -> Judge:
    """Return the ids with which the chart refuses a variable, or `accepted`."""
    return _rendered({"extraEnv": {name: value}})


def on_gpu(gpu: str, **args: Any) -> Judge:
    """Return the ids with which the chart refuses flags on a GPU model, or `accepted`."""
    return _rendered({"gpuModel": gpu, "recipe": {"args": args}})


def attributed(case: Case) -> Judge:
    """Return the class and exit code that the launcher finds in a message."""

    def judge(folder: Path) -> str:
        found, code, *_ = case.judge()
        return f"{found} {int(code)}"

    return judge


def _rendered(values: Mapping[str, Any]) -> Judge:
    def judge(folder: Path) -> str:
        try:
            helm.template(helm.merged(values))
        except helm.Refused as refused:
            return ", ".join(sorted({each.id for each in printed.by_helm(str(refused))}))
        return "accepted"

    return judge


def fetched(*names: str) -> Judge:
    """Return the weights that a download takes; the index names those at the top."""
    named = [name for name in names if "/" not in name]

    def judge(folder: Path) -> str:
        files = tuple(
            HubFile(path=name, size=1, digest="", digest_type="none") for name in (INDEX, *names)
        )
        source = parse_source("hf://o/m@main", "recipe.model")
        taken = select_files(Listing(commit="", files=files), source, "model")
        return " ".join(f.path for f in indexed(taken, source, named) if f.path != INDEX)

    return judge


def sized(**config: Any) -> Judge:
    """Return what is read of a config.json: billions of parameters, and what is not modelled."""

    def judge(folder: Path) -> str:
        try:
            model = parse_config(config)
        except LaunchError as error:
            return f"{int(error.code)} {error.cause}"
        return " ".join([f"{model.parameters / 1e9:.1f}", *model.unmodelled])

    return judge


def ruled(own: Mapping[str, str], **config: Any) -> Judge:
    """Return the ids with which rules refuse a model by its config.json."""

    def judge(folder: Path) -> str:
        model = parse_config({**known_models()[MOE], **config})
        gang = table.Context(
            model_config=model,
            nodes=1,
            gpus_per_node=8,
            backend="megatron",
            own={**table.PLAIN, **own},
        )
        found = table.check({"num_train_epochs": "1", "packing": "true"}, gang)
        return ", ".join(each.id for each in found) or "accepted"

    return judge


def fits(tokens: float | None) -> Judge:
    """Return whether ms-swift's examples/megatron/lora/dpo.sh (65 GiB) fits two GPUs of 80 GB."""
    args: dict[str, Value] = {
        "rlhf_type": "dpo",
        "tuner_type": "lora",
        "max_length": "2048",
        "expert_model_parallel_size": "2",
        "micro_batch_size": "8",
        "recompute_granularity": "full",
        "recompute_method": "uniform",
    }

    def judge(folder: Path) -> str:
        recipe = Recipe(backend="megatron", task="rlhf", model="m", dataset=(), args=args)
        data = None if tokens is None else Data(pairs=40000, tokens=tokens, source="")
        job = planning.Job(
            run="r",
            recipe=recipe,
            nodes=1,
            gpus_per_node=2,
            gpu_model="a100-80g",
            link=Link(name="ib", gbs=20),
            model_config=parse_config(known_models()[MOE]),
            data=data,
        )
        free = planning.build(job).free_gib
        return "fits" if free is not None and free > 0 else f"refused {free}"

    return judge


def why(made: View, *words: str) -> Judge:
    """Return the id of `why`, and those of the words that its text lacks."""

    def judge(folder: Path) -> str:
        (found,) = explain(made)
        text = f"{found.sentence} {found.remedy}"
        return " ".join([found.id, *(f"lacks {word!r}" for word in words if word not in text)])

    return judge


def held() -> View:
    """Return an evicted run whose quota is still reserved."""
    item = evicted("PodsReadyTimeout", "Exceeded the PodsReady timeout team/x")
    item["status"]["admission"] = workload(holds=16)["status"]["admission"]
    return view(suspended(), workloads=[item])


def elsewhere() -> View:
    """Return a run that MultiKueue has dispatched."""
    status = [{"name": "node", "ready": 1}]
    item = workload(holds=16, clusterName="worker-1")
    return view(jobset(replicatedJobsStatus=status), workloads=[item])


def nothing(model: Path) -> None:
    """Change nothing."""
