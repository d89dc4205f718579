"""Messages between a training process and the process that writes its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A tensor in the buffer."""

    item: Any
    """torch's ``WriteItem``."""
    offset: int
    """In bytes."""
    dtype: torch.dtype
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class File:
    """One file to write."""

    path: str
    key: str
    """Its name in the checkpoint's index."""
    objects: Sequence[tuple[Any, bytes]]
    """Serialised objects, each with its ``WriteItem``."""
    tensors: Sequence[Stored]
    transforms: Sequence[Any]
    """torch's ``_StorageWriterTransforms``, empty before torch 2.7."""


@dataclass(frozen=True)
class Flushed:
    """A part of the files is on the disk; the write continues."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The error that kept the files from being written."""

    text: str
    number: int | None = None
    """``errno`` of an ``OSError``."""
    path: str | None = None
    """The file that it is about."""

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe an error, which may not be picklable."""
        if isinstance(error, OSError) and error.errno is not None:
            path = None if error.filename is None else str(error.filename)
            return cls(text=error.strerror or "", number=error.errno, path=path)
        return cls(text=f"{type(error).__name__}: {error}")

    def error(self) -> OSError:
        """Return the error for the training process."""
        if self.number is None:
            return OSError(self.text)
        return OSError(self.number, self.text, self.path)
