"""Read typed environment variables; errors name the variable."""

from collections.abc import Mapping

from launchers.exits import Exit, LaunchError


def required(env: Mapping[str, str], name: str, *others: str) -> str:
    """Read a variable that must be set, and so must others.

    Raises:
        LaunchError: CONFIG naming all of them that are unset or empty.
    """
    missing = [each for each in (name, *others) if not env.get(each)]
    if missing:
        raise LaunchError(
            Exit.CONFIG,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set",
            f"set {', '.join(missing)} on each host (launchers/HOSTS.md); in pods the chart does",
            id="env-missing",
        )
    return env[name]


def integer(env: Mapping[str, str], name: str, default: int, *, lowest: int = 1) -> int:
    """Read a whole number.

    Raises:
        LaunchError: CONFIG when it is not a whole number or is below ``lowest``.
    """
    text = env.get(name, "") or str(default)
    if not (text.isascii() and text.isdecimal()) or int(text) < lowest:
        raise LaunchError(
            Exit.CONFIG,
            f"{name}={text!r}",
            f"use a whole number of at least {lowest}",
            id="env-integer",
        )
    return int(text)


def port(env: Mapping[str, str], name: str, default: int) -> int:
    """Read a TCP port."""
    number = integer(env, name, default)
    if number > 65535:
        raise LaunchError(
            Exit.CONFIG, f"{name}={number}", "use a port from 1 to 65535", id="env-port"
        )
    return number


def is_one(env: Mapping[str, str], name: str) -> bool:
    """Return whether a variable is 1 and not 0; unset or empty is 0.

    Raises:
        LaunchError: CONFIG for any other spelling.
    """
    text = env.get(name, "") or "0"
    if text not in ("0", "1"):
        raise LaunchError(
            Exit.CONFIG,
            f"{name}={text!r} is not 0 or 1",
            "write 1 for yes, 0 for no",
            id="env-switch",
        )
    return text == "1"
