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
