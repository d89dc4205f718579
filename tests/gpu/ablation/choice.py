"""Selection of variants and traces from a file. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tests.gpu.ablation.plan import Choice


def choose(whole: Choice, only: Sequence[str], *, starts: bool) -> Choice:
    """Return the named variants; by default all, with all starts if requested.

    Raises:
        ValueError: a name is not in the file.
    """
    names = [each.name for each in whole.variants] + [each.name for each in whole.starts]
    if unknown := [name for name in only if name not in names]:
        raise ValueError(f"{', '.join(unknown)} is not in the file; write {', '.join(names)}")
    if not only:
        return whole if starts else dataclasses.replace(whole, starts=())
    return dataclasses.replace(
        whole,
        variants=tuple(each for each in whole.variants if each.name in only),
        starts=tuple(each for each in whole.starts if each.name in only),
    )


def traced(part: Choice, names: Sequence[str]) -> Choice:
    """Return the selection with traces of some variants or of the baseline.

    Raises:
        ValueError: a name is not measured while the model runs.
    """
    measured = [part.baseline, *part.variants]
    if unknown := set(names) - {each.name for each in measured}:
        known = ", ".join(each.name for each in measured)
        raise ValueError(f"no trace of {', '.join(sorted(unknown))}; write {known}")
    base, *rest = (
        dataclasses.replace(each, trace=each.trace or each.name in names) for each in measured
    )
    return dataclasses.replace(part, baseline=base, variants=tuple(rest))
