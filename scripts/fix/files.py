"""Changes of several values files: the file that a value comes from is edited, in memory."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.fix import text
from scripts.fix.change import Act, Change
from scripts.fix.text import NotEdited
from scripts.problem import Problem


@dataclass(frozen=True, kw_only=True)
class Files:
    """Values files in the order of Helm: the last one that has a value decides."""

    texts: Mapping[Path, str]
    sets: Sequence[str] = ()
    """Assignments of the command line, which come after the files and are not edited."""

    @classmethod
    def read(cls, files: Sequence[Path], sets: Sequence[str] = ()) -> Files:
        """Read the files as they are, with their line breaks.

        Raises:
            Problem: there is none, or one is not a text file.
        """
        if not files:
            raise Problem("--fix changes values files; give one with -f FILE")
        try:
            return cls(texts={file: _read(file) for file in files}, sets=sets)
        except (OSError, UnicodeDecodeError) as error:
            raise Problem(f"a values file cannot be read: {error}") from None

    def changed(self, change: Change) -> Files:
        """Return the files after a change; one of kind ``ask`` has to have its value.

        Raises:
            NotEdited: no file has the value, a file cannot be edited like this, or ``--set``
                gives the value.
        """
        self._refuse_set(change.path)
        found = self._having(change.path)
        if found is None and change.act not in (Act.SET, Act.REPLACE):
            raise NotEdited(f"{change.path} is in none of the files")
        file = found or list(self.texts)[-1]
        if change.act in (Act.SET, Act.REPLACE):
            old, path, merges = self.texts[file], self._path(file, change), change.act is Act.SET
            return self._with(file, text.set_value(old, path, change.value, merges=merges))
        old, path = self.texts[file], self._path(file, change)
        if change.act is Act.QUOTE:
            return self._with(file, text.quote(old, path))
        if change.act is Act.MOVE:
            return self._moved(file, path, str(change.value))
        is_below = any(
            _has(each, change.path) for other, each in self.texts.items() if other != file
        )
        made = text.set_value(old, path, None) if is_below else text.remove(old, path)
        return self._with(file, made)

    def _moved(self, file: Path, path: text.Path, to: str) -> Files:
        if self._having(to):
            raise NotEdited(f"{to} is set too; remove one of them")
        self._refuse_set(to)
        old = self.texts[file]
        new = text.resolved(to, text.read(old))
        if new[:-1] == path[:-1]:
            return self._with(file, text.rename(old, path, str(new[-1])))
        value: Any = text.read(old)
        for key in path:
            value = value[key]
        removed = text.remove(old, path)
        return self._with(file, text.set_value(removed, new, value))

    def _path(self, file: Path, change: Change) -> text.Path:
        return text.resolved(change.path, text.read(self.texts[file]))

    def _having(self, path: str) -> Path | None:
        found = [file for file, each in self.texts.items() if _has(each, path)]
        return found[-1] if found else None

    def _refuse_set(self, path: str) -> None:
        for each in self.sets:
            key = each.partition("=")[0]
            if key == path or path.startswith((f"{key}.", f"{key}[")):
                raise NotEdited(f"--set gives {key}; change it there")

    def _with(self, file: Path, made: str) -> Files:
        return Files(texts={**self.texts, file: made}, sets=self.sets)

    def difference(self, before: Files) -> str:
        """Return the changed lines of all files, in the form of ``diff -u``."""
        found = []
        for file, new in self.texts.items():
            old = before.texts[file]
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), str(file), str(file), lineterm="", n=2
            )
            found += list(lines)
        return "\n".join(found)

    @contextlib.contextmanager
    def copied(self) -> Any:
        """Yield the paths of copies, which a plan reads in place of the files."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, (file, each) in enumerate(self.texts.items()):
                paths.append(Path(folder) / f"{number}-{file.name}")
                paths[-1].write_bytes(each.encode())
            yield paths

    def write(self, before: Files) -> list[Path]:
        """Replace the files that differ; return them.

        Raises:
            Problem: a file has changed since it was read; none is written.
        """
        changed = [file for file, each in self.texts.items() if each != before.texts[file]]
        for file in changed:
            if not file.is_file() or file.read_bytes() != before.texts[file].encode():
                raise Problem(f"{file} has changed since it was planned; nothing was written")
        for file in changed:
            _replace(file.resolve(), self.texts[file])
        return changed


def _read(file: Path) -> str:
    return file.read_bytes().decode()


def _has(content: str, path: str) -> bool:
    values = text.read(content)
    for key in text.resolved(path, values):
        is_item = isinstance(values, list) and isinstance(key, int) and key < len(values)
        if not is_item and not (isinstance(values, dict) and key in values):
            return False
        values = values[key]
    return True


def _replace(file: Path, content: str) -> None:
    """Replace a file at once, with its permissions."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(content.encode())
        part.chmod(file.stat().st_mode)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
