"""``python3 -m launchers state``: print what a run has left; ``clean``: list and remove runs.

``state --json [--rows N] [FOLDER]`` prints the document (README.md), ``state --files REQUEST
[FOLDER]`` an archive of small files, ``state --log REQUEST`` a part of a log, ``state --stacks``
the stacks of the training processes of this pod. ``clean list ROOT
[NAME ...]`` and ``clean remove ROOT NAME ...`` print a document about runs. In a pod the run's
folder is its own. A request is JSON with the arguments of ``files.answer`` or ``log_part.answer``.

It neither needs the settings of a run nor imports what runs one, so it starts fast.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from launchers import logs
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.state import contents, document, files, log_part, stacks
from launchers.system import lookup

COMMANDS = ("state", "clean")
FILES = {"limit": (int,), "cut": (int,), "patterns": (list,)}
LOG = {
    "path": (str,),
    "pattern": (str, type(None)),
    "seconds": (int, float),
    "last": (bool,),
    "offset": (int,),
    "tail": (int, type(None)),
    "limit": (int,),
}
"""Keys of a request, and the types of their values."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the answer to stdout, or one line about an error to stderr; return the exit code."""
    try:
        found = _answer(argv, env)
    except LaunchError as error:
        print(logs.printable(f"{error} [{error.id}]"), file=sys.stderr)
        return error.code
    except OSError as error:
        print(logs.printable(lookup.describe(error, Path())), file=sys.stderr)
        return Exit.IO
    sys.stdout.buffer.write(found)
    sys.stdout.buffer.flush()
    return Exit.OK


def _request(keys: Mapping[str, tuple[type, ...]], text: str) -> dict[str, Any]:
    """Parse a request.

    Raises:
        ArgumentTypeError: it is not JSON, or its keys or their types are not those of ``keys``.
    """
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or found.keys() != keys.keys():
            raise ValueError(f"use a map with the keys {', '.join(keys)}")
        if wrong := [key for key, types in keys.items() if type(found[key]) not in types]:
            raise ValueError(f"{wrong[0]} is {type(found[wrong[0]]).__name__}")
        for each in (*found.get("patterns", []), found.get("pattern") or ""):
            re.compile(each)
    except (ValueError, TypeError, re.error) as error:
        raise argparse.ArgumentTypeError(f"{text[:200]} is not a request: {error}") from None
    return found


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().split())
        raise LaunchError(Exit.USAGE, message, usage, id="state-usage")


def _answer(argv: Sequence[str], env: Mapping[str, str]) -> bytes:
    parser = _Parser(prog="python3 -m launchers", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", required=True)
    state = verbs.add_parser("state", allow_abbrev=False)
    what = state.add_mutually_exclusive_group(required=True)
    what.add_argument("--json", action="store_true")
    what.add_argument("--stacks", action="store_true")
    what.add_argument("--files", metavar="REQUEST", type=partial(_request, FILES))
    what.add_argument("--log", metavar="REQUEST", type=partial(_request, LOG))
    state.add_argument("--rows", type=int, default=document.ROWS)
    state.add_argument("folder", nargs="?")
    clean = verbs.add_parser("clean", allow_abbrev=False)
    clean.add_argument("action", choices=("list", "remove"))
    clean.add_argument("root", type=Path)
    clean.add_argument("names", nargs="*")
    given = parser.parse_args(argv)
    if given.verb == "clean":
        return json.dumps(contents.answer(given.action, given.root, given.names)).encode()
    if given.stacks:
        return stacks.dump().encode()
    if given.log:
        return log_part.answer(given.log)
    work = _workspace(given.folder, env)
    if given.files:
        return files.answer(work.home, **given.files)
    return json.dumps(document.read(work, max(0, given.rows)), allow_nan=False).encode()


def _workspace(folder: str | None, env: Mapping[str, str]) -> Workspace:
    if folder:
        return Workspace.of(Path(folder).absolute())
    root, run = env.get("DPO_WORKSPACE"), env.get("DPO_RUN")
    if not root or not run:
        raise LaunchError(
            Exit.USAGE,
            "no run is given, and DPO_WORKSPACE and DPO_RUN name none",
            "give the folder of a run, such as /workspace/runs/dpo",
            id="state-run-unknown",
        )
    return Workspace(root=Path(root), run=run)
