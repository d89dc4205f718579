"""Pictures of the page in ``values/reports``, drawn by a headless Chromium."""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.helm import ROOT
from scripts.problem import Problem

FOLDER = ROOT / "values" / "reports"
PAGE = FOLDER / "demo-preempted.html"
SUMMARY = (
    "figure:nth-child(n+4), figure .note, figure details, .readout, section > div > .note,"
    " #s2 > div > .note { display: none } section { padding-top: 26px }"
)
"""Leaves the first three figures, without what belongs to reading them."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A view of the page, from its top."""

    width: int
    height: int
    """In CSS pixels."""
    dark: bool = False
    style: str = ""
    """Added to the page's own."""


PICTURES: Mapping[str, Picture] = {
    "demo-preempted": Picture(width=1240, height=1150, style=SUMMARY),
    "demo-preempted-phone": Picture(width=390, height=1120, dark=True),
}
"""By the name of the file."""


def draw(to: Path = FOLDER) -> list[Path]:
    """Write all pictures; return their paths."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise Problem("no Chromium to draw the pictures; apt-get install chromium")
    return [_draw(chromium, each, to / f"{name}.png") for name, each in PICTURES.items()]


def _draw(chromium: str, wanted: Picture, to: Path) -> Path:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shown = _framed(wanted, Path(folder))
        scheme = f"--blink-settings=preferredColorScheme={0 if wanted.dark else 1}"
        subprocess.run(
            [
                chromium,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={folder}/profile",
                scheme,
                f"--window-size={wanted.width},{wanted.height}",
                f"--screenshot={to}",
                shown.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
    return to


def _framed(wanted: Picture, folder: Path) -> Path:
    """Write a copy of the page with the style of the picture; return it."""
    text, page = PAGE.read_text(encoding="utf-8"), folder / "page.html"
    page.write_text(text.replace("</style>", f"{wanted.style}</style>", 1), encoding="utf-8")
    return page
