"""`megatron-dpo plan`: render, predict, judge, show."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from launchers.config.gpu_models import GPU_MODELS
from launchers.config.settings import from_env
from launchers.config.sources import split_count
from launchers.plan import plan as planning
from launchers.plan.layout import Layout
from launchers.plan.plan import NO_GPU_MODEL, Job, Plan
from launchers.plan.plan import job_of as job_from
from launchers.units import GIB
from scripts import prices
from scripts.helm import template
from scripts.manifest import GPU_MODEL
from scripts.plan import document, ranking, screen
from scripts.plan.candidates import on
from scripts.plan.inputs import find_data, find_model, judge_rows, prompts
from scripts.plan.recipe_args import Args, layout_flags
from scripts.plan.search import Found, Search, nearest
from scripts.plan.submission import Submission, read_submission
from scripts.plan.verdict import Verdict, judge
from scripts.problem import Problem, of_launcher

PROPOSED_LAYOUTS = 3
"""Layouts proposed below a plan that does not fit."""
RANKED_LAYOUTS = 15
"""Layouts listed by a search."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `megatron-dpo plan`: values, and facts that they do not contain."""

    run: str
    files: Sequence[Path] = ()
    sets: Sequence[str] = ()
    gpu: str = ""
    model_config: Path | None = None
    pairs: int | None = None
    tokens: float | None = None
    as_json: bool = False
    search: bool = False
    """Rank all layouts instead."""
    nodes: int | None = None
    """Nodes to search for; None: those of the values."""
    gpus_per_node: int | None = None
    """GPUs per node to search for; None: those of the values."""
    data: Sequence[Path] = ()
    """Rows of ``recipe.dataset`` on this machine, in its order: they are judged and counted."""


def run(request: Request, console: Console, *, fix: bool = False, yes: bool = False) -> int:
    """Plan a release, search layouts for it, or fix its values files.

    Args:
        request: the values, and facts that they do not contain.
        console: prints.
        fix: apply the remedies of its refusals (``scripts/fix``).
        yes: ask nothing.

    Returns:
        0, or 1 when the release is refused or no layout fits.

    Raises:
        Problem: the chart refuses the values, or a needed fact is missing; with ``--json`` the
            document says so instead.
    """
    if fix:
        from scripts.fix import command as fixing  # which plans by this module

        return fixing.run(request, console, yes=yes)
    if request.as_json:
        content = document_of(request)
        _print(content, console)
        return 0 if content["accepted"] else 1
    return _rank(request, console) if request.search else _plan(request, console)


def document_of(request: Request) -> dict[str, Any]:
    """Return the document of a plan or search, also where it is refused."""
    try:
        if request.search:
            searched, best, _ = _ranked(request)
            return document.of_search(searched, best)
        found, plan, verdict, _, proposals = _planned(request)
        return document.of_plan(found, plan, verdict, proposals, prices.read())
    except Problem as problem:
        return document.of_refusal(str(problem), search=request.search)


def _plan(request: Request, console: Console) -> int:
    found, plan, verdict, searched, proposals = _planned(request)
    console.print(screen.show(found, plan, verdict, prices.read()))
    if searched:
        console.print(screen.proposed(searched, proposals))
    elif proposals:
        console.print(screen.faster(plan, proposals[0]))
    return 1 if verdict.refusals else 0


def _planned(request: Request) -> tuple[Submission, Plan, Verdict, Search | None, Sequence[Found]]:
    if request.nodes or request.gpus_per_node:
        raise Problem("--nodes and --gpus-per-node belong to --search; otherwise use --set nodes=N")
    found, plan, verdict = predict(request)
    if not verdict.refusals:
        faster = search_of(found, plan).fewer_recomputed() if plan.speed else None
        return found, plan, verdict, None, [faster] if faster else []
    searched = search_of(found, plan) if verdict.is_too_big and plan.gpu else None
    return found, plan, verdict, searched, nearest(searched, PROPOSED_LAYOUTS) if searched else []


def predict(request: Request) -> tuple[Submission, Plan, Verdict]:
    """Return a release, its plan and the verdict on it.

    Raises:
        Problem: the chart refuses the values, or a needed fact is missing.
    """
    found = _read(request)
    plan = planning.build(job_of(found, request))
    return found, plan, judge(found, plan)


def refusals(request: Request) -> Sequence[str]:
    """Return the lines that refuse a release; none if it can be submitted."""
    try:
        return predict(request)[2].refusals
    except Problem as problem:
        return document.lines(str(problem))


def layouts(request: Request) -> list[Args]:
    """Return the changes of ``recipe.args`` after which a release fits; none if it fits already.

    Raises:
        Problem: the release is refused for another reason.
    """
    *_, searched, proposals = _planned(request)
    return [found.changes for found in proposals] if searched else []


def _rank(request: Request, console: Console) -> int:
    searched, best, seconds = _ranked(request)
    console.print(ranking.show(searched, best, seconds))
    return 0 if best else 1


def _ranked(request: Request) -> tuple[Search, Sequence[Found], float]:
    """Return a search, its best layouts, and the seconds that it took."""
    found = _read(request)
    # Planned with the values' own number of GPUs, which need not be the number searched.
    searched = search_of(found, planning.build(job_of(found, request)))
    if request.nodes or request.gpus_per_node:
        searched = _moved(searched, found, request)
    return searched, searched.best(RANKED_LAYOUTS), time.perf_counter() - time.perf_counter()


def _read(request: Request) -> Submission:
    return read_submission(template(request.run, request.files, request.sets))


def search_of(found: Submission, plan: Plan) -> Search:
    """Return the search on the GPUs that a release asks for.

    Raises:
        Problem: a fact that the prediction needs is not known.
    """
    job, training, gpu = plan.job, plan.training, plan.gpu
    if job.model_config is None:
        raise Problem(job.model_config_source)
    if training is None:
        raise Problem(plan.unknown["training"])
    if gpu is None:
        raise Problem(f"{NO_GPU_MODEL}, or give --gpu NAME")
    return Search(
        job=job,
        model_config=job.model_config,
        training=training,
        gpu=gpu,
        host_gib=_host_gib(found),
        gang=_gang(found, job),
    )


def _moved(searched: Search, found: Submission, request: Request) -> Search:
    """Return the search on other GPUs, with the resources that the chart gives a pod there."""
    nodes = request.nodes or found.nodes
    gpus = request.gpus_per_node or found.gpus_per_node
    sizes = Layout(nodes=nodes, gpus_per_node=gpus)
    batch = nodes * gpus * searched.training.micro_batch_size
    # A layout and a batch size that are valid for any number of GPUs.
    plain = {**layout_flags(on(searched.training, sizes, {})), "global_batch_size": str(batch)}
    sets = [f"recipe.args.{flag}={value or 'null'}" for flag, value in plain.items()]
    sets += [f"nodes={nodes}", f"gpusPerNode={gpus}", "recipe.checkFlags=false"]
    there = _read(replace(request, sets=[*request.sets, *sets]))
    job = replace(job_of(there, request), recipe=found.recipe)
    return replace(searched, job=job, host_gib=_host_gib(there), gang=_gang(found, job))


def _host_gib(found: Submission) -> float | None:
    return None if found.pod.memory is None else found.pod.memory / GIB


def _gang(found: Submission, job: Job) -> dict[str, str]:
    """Return the values about the gang that differ between a job and its release."""
    own = (found.nodes, found.gpus_per_node, found.gpu_model)
    searched = (job.nodes, job.gpus_per_node, job.gpu_model)
    names = ("nodes", "gpusPerNode", "gpuModel")
    return {n: str(new) for n, old, new in zip(names, own, searched, strict=True) if new != old}


def _print(content: dict[str, Any], console: Console) -> None:
    console.out(json.dumps(content, indent=1), highlight=False)


def job_of(found: Submission, request: Request) -> Job:
    """Return the job that the release's launcher would build from its environment.

    Raises:
        Problem: the GPU is not known, or the launcher would refuse the environment.
    """
    if request.gpu and request.gpu not in GPU_MODELS:
        raise Problem(f"--gpu {request.gpu} is not known; write one of {', '.join(GPU_MODELS)}")
    env = {**found.env, "JOB_COMPLETION_INDEX": "0"}
    if request.gpu:
        env[GPU_MODEL] = request.gpu
    model_config, where = find_model(found.recipe.model, request.model_config, found.recipe)
    with of_launcher():
        settings = from_env(env)
    given = [f"file://{path.resolve()}" for path in request.data]
    if len(given) == len(found.recipe.dataset):  # their numbers of rows hold for the files, too
        counts = [split_count(each)[1] for each in found.recipe.dataset]
        given = [f"{file}#{n}" if n else file for file, n in zip(given, counts, strict=True)]
    if given:
        judge_rows(found.recipe, request.data)
    job = job_from(
        settings, found.recipe, env, model_config=model_config, model_config_source=where
    )
    once, said = prompts(job)
    dataset = find_data(
        given or found.recipe.dataset,
        pairs=request.pairs,
        tokens=request.tokens,
        prompt_once=once,
    )
    return replace(job, data=dataset, prompts=said)
