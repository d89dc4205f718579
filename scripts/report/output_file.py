"""Files that a user has named for a result."""

from pathlib import Path

from launchers.system import atomic_file


def write(file: Path, content: str | bytes) -> None:
    """Write a result; where that fails, an earlier one stays as it was.

    A link keeps its target's place; a pipe or a device such as ``/dev/stdout`` is written to.

    Raises:
        OSError: the disk is full, or the folder is missing or not writable.
    """
    data = content.encode() if isinstance(content, str) else content
    if file.exists() and not file.is_file():
        file.write_bytes(data)
        return
    place = file.resolve()
    try:
        atomic_file.replace(place, data)
    except OSError:
        atomic_file.partial_of(place).unlink(missing_ok=True)
        raise
