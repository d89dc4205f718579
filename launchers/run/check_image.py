"""``check --image``: judge whether an image can train. It needs no settings, workspace or network.

On a host without a GPU, such as the one that builds the image, what needs a driver is skipped.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from launchers.exits import Exit
from launchers.preflight import pod_checks
from launchers.preflight.finding import Finding, failed, failure, ok, skipped, warning
from launchers.preflight.pod_checks import driver, versions
from launchers.preflight.probes import REQUIRED_PACKAGES, PodFacts, gather
from launchers.upstream import patches, record, table

_IMPORTS = (
    *(module for module, *_ in REQUIRED_PACKAGES["megatron"].values()),
    "transformer_engine.pytorch",
)
_IMPORT_TIMEOUT_SECONDS = 300
_PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    error = ""
    try:
        importlib.import_module(name)
    except BaseException as found:
        error = type(found).__name__ + ": " + " ".join(str(found).split())[:300]
    print("imported", name, error, sep="\\t", flush=True)
"""
_FIX = "use an image whose packages fit together, e.g. one of scripts/image/Dockerfile"


def check_image(env: Mapping[str, str]) -> None:
    """Print what was found of the image, and its patches.

    Raises:
        LaunchError: CONFIG with all that is wrong.
    """
    facts = gather(env, Path(), "megatron", gpus=True)
    verdicts = [patches.judge(each, env.get(patches.ACCEPT, "")) for each in table.PATCHES]
    found = [
        versions(facts.versions, "megatron"),
        _cuda(facts),
        *judge_imports(_imported(env)),
        pod_checks.patches(verdicts),
    ]
    for each in found:
        print(f"{each.check:10}{each.state:10}{each.seen}")
    print(record.table(verdicts))
    error = failure([replace(each, code=Exit.CONFIG) for each in found], "image")
    if error is not None:
        raise error


def _cuda(facts: PodFacts) -> Finding:
    if not facts.torch_cuda:
        return failed("driver", "the image has no torch with CUDA", "use an image with CUDA")
    if facts.smi is not None:
        return driver(facts.smi, facts.torch_cuda)
    if facts.smi_error:
        return warning("driver", facts.smi_error, "run it on a host whose driver works")
    return skipped("driver", f"no GPU here; image CUDA {facts.torch_cuda}")


def _imported(env: Mapping[str, str]) -> dict[str, str | None]:
    """Import the packages in a process of its own; return each one's error, None without an end."""
    command = [sys.executable, "-c", _PROGRAM, *_IMPORTS]
    try:
        done = subprocess.run(
            command, env=dict(env), stdout=subprocess.PIPE, timeout=_IMPORT_TIMEOUT_SECONDS
        ).stdout
    except subprocess.TimeoutExpired as expired:
        done = expired.stdout or b""
    rows = [line.split("\t") for line in done.decode(errors="replace").splitlines()]
    ended = {row[1]: row[2] for row in rows if row[0] == "imported" and len(row) == 3}
    return {name: ended.get(name) for name in _IMPORTS}


def judge_imports(errors: Mapping[str, str | None]) -> Iterator[Finding]:
    """Judge the imports of the packages.

    ``errors``: module to its error; empty if it was imported, None if its process ended or hung.

    >>> [f.state for f in judge_imports({"a": "", "b": "OSError: libcuda.so.1: no such file"})]
    ['skipped', 'ok']
    """
    good = []
    for name, error in errors.items():
        if error is None:
            yield failed("imports", f"{name}: the process of its import ended or hung", _FIX)
        elif "libcuda.so" in error:  # the driver's library, which a host with GPUs mounts
            yield skipped("imports", f"{name} needs a host with a GPU")
        elif error:
            yield failed("imports", f"{name}: {error}", _FIX)
        else:
            good.append(name)
    if good:
        yield ok("imports", ", ".join(good))
