"""Record in a checkpoint of the software that trained it; a resume compares it."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from launchers import version
from launchers.upstream import source
from launchers.upstream.patches import Function, Verdict
from launchers.upstream.table import of_feature

KERNELS = ("apex", "flash-attn", "flash-attn-3", "flash-attn-4")
"""Optional distributions that bring kernels: apex of norms and fused gradient accumulation,
flash-attn and its successors, which Transformer Engine looks for by these names, of attention."""
PACKAGES = ("ms-swift", "mcore-bridge", "megatron-core", "transformer-engine", "torch", *KERNELS)
"""Distributions whose version may change the numbers of a run."""
ALLOW_VARIABLE = "DPO_ALLOW_VERSION_CHANGE"
"""Environment variable of the training processes: ``1`` if the recipe's ``allowVersionChange`` is
true. The launcher sets it; in the launcher's own environment it is refused."""
RUN_ON_GPUS = {
    "ms-swift": ("4.4.1", "4.5.3", "4.6.0"),
    "mcore-bridge": ("1.6.0", "1.6.5"),
    "megatron-core": ("0.18.0", "0.18.2", "0.19.2"),
    "transformer-engine": ("2.12.0", "2.16.1"),
    "torch": ("2.11.0",),
    "apex": ("0.1",),
    "flash-attn": ("2.8.3",),
    "flash-attn-3": (),
    "flash-attn-4": (),
}
"""The releases that the runs of tests/bench have had; none had the packages without a release."""
NEVER_RUN = "never run on a GPU by this project"
"""Words before the packages whose installed release no run of tests/bench has had."""
LAUNCHER = "launcher"
"""Key of the launcher's digest: it is recorded, and a resume may have another one."""


def versions(launcher_digest: str = "") -> dict[str, str]:
    """Return the installed versions, empty where a package is missing, and the launcher's digest.

    ``launcher_digest``: the chart's (``DPO_LAUNCHER_DIGEST``); computed if it is empty.
    """
    found = {name: source.version(name) for name in PACKAGES}
    return {**found, LAUNCHER: version.own_digest(launcher_digest)}


def never_run() -> list[str]:
    """Return the installed packages that no GPU run of this project has had, with versions."""
    found = {name: source.version(name) for name in RUN_ON_GPUS}
    return [
        f"{name} {seen}"
        for name, seen in found.items()
        if seen and seen.partition("+")[0] not in RUN_ON_GPUS[name]
    ]


def document(verdicts: Iterable[Verdict]) -> dict[str, dict[str, object]]:
    """Return patches as JSON, by name: effect, state and the digests of upstream's functions."""
    return {
        each.patch.name: {
            "effect": each.patch.effect,
            "state": each.state,
            "functions": dict(each.digests),
            **({"proved": each.proved} if each.proved else {}),
        }
        for each in verdicts
    }


def differences(before: Mapping[str, Any], features: Iterable[str]) -> list[str]:
    """Compare a checkpoint's record with the installed packages; return a sentence for each change.

    Patches, functions and packages that only one of the two sides knows are left out: they come
    from another launcher or another ``recipe.reference``, not from another upstream.
    ``before`` is the checkpoint's record.
    """
    return [*_changed_versions(before["versions"]), *_changed_patches(before, features)]


def _changed_versions(before: Mapping[str, str]) -> Iterator[str]:
    for name in PACKAGES:
        old, new = before.get(name), source.version(name)
        if old is not None and old != new:
            yield f"{name} {old or '(none)'}, now {new or '(none)'}"


def _changed_patches(before: Mapping[str, Any], features: Iterable[str]) -> Iterator[str]:
    recorded = before.get("patches", {})
    for feature in features:
        now = of_feature(feature)
        if now is None or now.patch.name not in recorded:
            continue
        known = recorded[now.patch.name]
        for place, old in known["functions"].items():
            new = now.digests.get(place, old)
            if old != new:
                yield f"{place} of patch {now.patch.name} {_short(old)}, now {_short(new)}"
        if known["state"] != now.state:
            yield f"patch {now.patch.name} {known['state']}, now {now.state}"


def _short(digest: str) -> str:
    return f"sha256 {digest[:12]}" if digest else "(none)"


def table(verdicts: Iterable[Verdict]) -> str:
    """Format patches for people, one a line, with the functions whose source is unknown."""
    lines = [f"{'patch':27}{'effect':10}{'state':22}sources"]
    for each in verdicts:
        state = f"proved on {each.proved}" if each.proved else each.state
        head = f"{each.patch.name:27}{each.patch.effect:10}{state:22}{each.releases}"
        lines.append(head.rstrip())
        if each.proved:
            continue
        lines += dict.fromkeys(_explain(function, each) for function in each.unknown)
        if each.state == "not needed":
            lines.append(f"  {each.patch.fixed_by}")
    if found := never_run():
        lines.append(f"{NEVER_RUN}: {', '.join(found)}")
    return "\n".join(lines)


def _explain(function: Function, verdict: Verdict) -> str:
    installed = source.version(function.package)
    digest = verdict.digests[function.place]
    if not installed and not digest:
        return f"  {function.package} is not installed"
    seen = f"sha256 {digest}" if digest else "no such function"
    package = f"{function.package} {installed or '(version unknown)'}"
    return f"  {function.place}: unknown in {package}, {seen}"
