"""Markdown table of an ablation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scripts.dev.figures import markdown

COLUMNS = (
    *("variant", "s/step", "tok/s/GPU", "x baseline", "GiB allocated", "GiB reserved"),
    *("loss off ln 2", "wall, busy, compute, communication ms", "kernels"),
)


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return one line per variant."""
    return markdown.table(COLUMNS, [_line(name, row) for name, row in rows.items()])


def _line(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    if not row.get("steps"):
        return (name, str(row.get("ended", "not measured")), *[""] * (len(COLUMNS) - 2))
    seconds = row["seconds"]
    profile = (row.get("profiles") or [{}])[0]
    names = ("wall_ms", "busy_ms", "compute_ms", "communication_ms")
    said = row.get("refused") and "not switched" or row.get("ended", "")
    return (
        f"{name} ({said})" if said else name,
        f"{seconds['median']:.3f} ({seconds['min']:.3f} to {seconds['max']:.3f})",
        f"{row['tokens_per_second_per_gpu']:.0f}",
        f"{row['times']:.3f}" if "times" in row else "",
        f"{row['allocated_gib']:.1f}",
        f"{row['reserved_gib']:.1f}",
        f"{row['loss_off']:.1e}",
        ", ".join(f"{profile[each]:.0f}" for each in names if each in profile),
        str(profile.get("kernels", "")),
    )


def tops(rows: Mapping[str, Mapping[str, Any]], most: int = 12) -> str:
    """Return the longest kernels of each row with a profile."""
    said = []
    for name, row in rows.items():
        for ms, kernel, count in [
            (each[1], each[0], each[2]) for each in (row.get("profiles") or [{}])[0].get("top", [])
        ][:most]:
            said.append(f"{name}: {ms:8.2f} ms in {count:6d} of {kernel}")
    return "\n".join(said)
