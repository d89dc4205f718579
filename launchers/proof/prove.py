"""``patches --prove``: run the differential of each patch whose sources are unknown."""

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from launchers import PACKAGE
from launchers.config.env import required
from launchers.exits import Exit, LaunchError
from launchers.proof import cases
from launchers.upstream import code_identity, proved, source
from launchers.upstream.patches import Verdict, judge
from launchers.upstream.table import PATCHES

GPU_ONLY = "transformer-engine"
"""The distribution whose functions do nothing on a CPU."""
ON_CPU = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"} | {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "MASTER_ADDR": "127.0.0.1",
}
RUN = "launchers.proof.run"
Job = dict[str, Any]


def prove(env: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Prove the patches that are neither known nor proved, and record what was proved.

    ``env`` has ``DPO_WORKSPACE``, where the record is kept.

    Raises:
        LaunchError: CONFIG without a workspace, and naming the patches that were not proved.
    """
    required(env, "DPO_WORKSPACE")
    verdicts = {each.feature: judge(each, "") for each in PATCHES}
    unknown = {name: v for name, v in verdicts.items() if v.unknown and not v.proved}
    found = {name: reason for name, v in unknown.items() if (reason := _out_of_reach(v))}
    tried = {name: v for name, v in unknown.items() if name not in found}
    wrong: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="prove-") as folder:
        for name, faults in differentials(Path(folder), env, list(tried)):
            wrong[name] = faults
            places = ", ".join(f.place for f in tried[name].unknown)
            say(f"{name}: {'proved' if not faults else f'{faults[0]}; moved: {places}'}")
    for name, reason in found.items():
        say(f"{name}: not proved: {reason}")
    good = {tried[n].patch.name: tried[n].digests for n, faults in wrong.items() if not faults}
    bad = [tried[name].patch.name for name, faults in wrong.items() if faults]
    proved.write(good, bad, env)
    say(f"{len(good)} proved, {len(bad)} wrong, {len(found)} not tried; {proved.file(env)}")
    if bad:
        raise LaunchError(
            Exit.CONFIG,
            f"not proved on the installed packages: {', '.join(bad)}",
            "use an image of a known release, or report the functions that moved",
            id="patches-not-proved",
        )


def _out_of_reach(verdict: Verdict) -> str:
    """Return why a patch cannot be proved on a CPU; empty if it can."""
    for f in verdict.patch.functions:
        if f.package == GPU_ONLY and f in verdict.unknown:
            return f"needs a GPU: {f.place}"
        if source.file_of(f.module) is None:
            return f"{f.package} is not installed: {f.place}"
    if verdict.patch.feature not in map(cases.feature, cases.CASES):
        return "needs a GPU: its adapters or packs need kernels"
    return ""


def differentials(
    folder: Path, env: Mapping[str, str], features: list[str]
) -> Iterator[tuple[str, list[str]]]:
    """Run the cases of features; yield each with what is wrong, empty if nothing is.

    ``folder`` is empty.
    """
    groups: dict[Any, list[str]] = {}
    for name, case in cases.CASES.items():
        if cases.feature(name) in features:
            is_alone = case.flags or case.check not in (cases.joint, cases.same)
            groups.setdefault(name if is_alone else case.backend, []).append(name)
    run(folder, env, [job for group in groups.values() for job in jobs(folder, group)])
    wrong: dict[str, list[str]] = {name: [] for name in features}
    idle: dict[str, list[set[str]]] = {name: [] for name in features}
    for group in groups.values():
        pair = jobs(folder, group)
        alone = dict.fromkeys(group, faults := judged(folder, group, pair))
        if faults and len(group) > 1:
            pairs = {name: jobs(folder, [name]) for name in group}
            run(folder, env, [job for each in pairs.values() for job in each])
            found = {name: judged(folder, [name], each) for name, each in pairs.items()}
            alone = found if any(found.values()) else alone  # else they differ only together
        for name, each in alone.items():
            wrong[cases.feature(name)] += each
        for trace in _traces(folder, pair[1])[:1]:
            for name in {*map(cases.feature, group)}:
                idle[name].append({at for at, n in trace["calls"][name].items() if not n})
    for name, faults in wrong.items():
        unused = set.intersection(*idle[name]) if idle[name] else []
        yield name, [*faults, *(f"{at} was not called" for at in sorted(unused))]


def judged(folder: Path, names: list[str], pair: tuple[Job, Job]) -> list[str]:
    """Return what is wrong in the runs of a case; empty if nothing is."""
    (base, ours), check = pair, cases.CASES[names[0]].check
    one, other = (_traces(folder, job) for job in pair)
    if not one:
        return [f"upstream's own run failed: {_last(folder, base)}"]
    if not other:
        home = folder / ours["backend"] / ours["name"]
        text = "".join(log.read_text(errors="replace") for log in home.glob("log-*"))
        is_seen = check is cases.unreadable and "in read_data\n" in text
        return [] if is_seen else [f"the run failed: {_last(folder, ours)}"]
    return list(check(one, other))


def jobs(folder: Path, names: list[str]) -> tuple[Job, Job]:
    """Return the run of upstream and the one with the features, of cases with equal flags."""
    case, made = cases.CASES[names[0]], list[Job]()
    ours, home = [*case.needs, *map(cases.feature, names)], folder / case.backend
    for features, more in ([], case.upstream), ([*dict.fromkeys(ours)], ""):
        given = cases.flags(cases.ALL, cases.OF_BACKEND[case.backend], case.flags, more)
        base = home / made[0]["name"] if made else home
        places = {"inputs": home, "base": base}
        flags = {name: value.format(**places) for name, value in given.items()}
        job = {"backend": case.backend, "ranks": case.ranks, "features": features, "flags": flags}
        made.append({**job, "name": code_identity.name(job)})
    return made[0], made[1]


def run(folder: Path, env: Mapping[str, str], wanted: Iterable[Job]) -> None:
    """Run the jobs that have not been run, those of a backend in one process."""
    todo = {job["name"]: job for job in wanted}
    paths = [str(PACKAGE.parent), *filter(None, [env.get("PYTHONPATH")])]
    own, started = {**env, **ON_CPU, "PYTHONPATH": ":".join(paths)}, []
    for backend in sorted({job["backend"] for job in todo.values()}):
        home = folder / backend
        home.mkdir(exist_ok=True)
        mine = [each for each in todo.values() if each["backend"] == backend]
        mine = [each for each in mine if not (home / each["name"]).exists()]
        (home / "jobs.json").write_text(json.dumps(mine))
        if mine:
            with (home / "log").open("a") as log:
                words = [sys.executable, "-m", RUN, str(home), str(home / "jobs.json")]
                started.append(subprocess.Popen(words, env=own, stdout=log, stderr=log))
    for each in started:
        each.wait()


def _traces(folder: Path, job: Job) -> list[Any]:
    """Return the traces of all ranks; none if a rank has none."""
    torch: Any = importlib.import_module("torch")
    home = folder / job["backend"] / job["name"]
    paths = [home / f"trace-{rank}.pt" for rank in range(job["ranks"])]
    is_whole = all(path.exists() for path in paths)
    return [torch.load(path, weights_only=False) for path in paths] if is_whole else []


def _last(folder: Path, job: Job) -> str:
    """Return the last line that a failed run printed."""
    home = folder / job["backend"]
    for log in (*sorted((home / job["name"]).glob("log-*")), home / "log"):
        lines = log.read_text(errors="replace").split("\n") if log.exists() else []
        errors = [line for line in lines if "Error" in line]
        if errors:
            return str(errors[-1][:300])
    return "no output"
