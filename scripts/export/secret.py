"""A key or token that is given by reference: a file or a variable, never as an argument."""

import os
from pathlib import Path

from scripts.problem import WrongUse

FROM_VARIABLE = "env:"


def read(given: str, option: str) -> bytes:
    """Return the content of a file, or of a variable given as `env:NAME`.

    ``given`` is not printed, in case it is the secret itself.

    Raises:
        WrongUse: the variable is not set, or the file cannot be read.
    """
    if given.startswith(FROM_VARIABLE):
        name = given.removeprefix(FROM_VARIABLE)
        if not os.environ.get(name):
            raise WrongUse(
                f"{option} {given}: the variable {name} is not set; export it, or give a file"
            )
        return os.environ[name].encode()
    try:
        return Path(given).read_bytes()
    except OSError as error:
        raise WrongUse(
            f"{option}: {error.strerror}; give a file or env:NAME, not the secret itself: others "
            "see arguments"
        ) from None


def text(given: str, option: str) -> str:
    """Return the same as text, without white space around it.

    Raises:
        WrongUse: as of ``read``, or it is not UTF-8.
    """
    try:
        return read(given, option).decode().strip()
    except UnicodeDecodeError:
        raise WrongUse(f"{option}: the file is not a text in UTF-8; give that of a token") from None
