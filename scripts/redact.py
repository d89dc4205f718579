"""Remove secrets from text and data that leave the cluster: reports and bundles.

Three rules: values under names that announce a secret, texts in the form of a known kind of secret,
and exact values that the caller knows. A secret under an innocent name in no known form is found by
the third rule only, so callers leave out all that may hold one, such as the environment.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from scripts import credentials

REDACTED = "[redacted]"
SHORTEST = 6
"""Characters of a known value; a shorter one would also remove ordinary words."""
_NAME = rf"[\w.\-]{{0,64}}(?:{credentials.words()})(?:[_-]?(?:id|value|data))?"
_ORDINARY = re.compile(credentials.ordinary(), re.IGNORECASE)
_SENSITIVE = re.compile(_NAME, re.IGNORECASE)
_PLAIN = re.compile(
    r"(?:-?[\d.]+(?:e[+-]?\d+)?|true|false|null|none|\[redacted\]?)?", re.IGNORECASE
)
"""Values that are not secrets under any name: numbers, truth values, nothing."""

_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w.\-]){_NAME})(?P<sign>\\?[\"']?\s*(?:=>|[=:]|%3D)\s*)"
    rf"(?P<value>(?:(?:Bearer|Basic|Token)\s+)?(?:\\\"[^\"\\]*\\\"|{_QUOTED}|[^\s,;&|)}}\]\"']+))",
    re.IGNORECASE,
)
"""``NAME=value``, ``name: value``, ``"name": "value"``, also inside a string of JSON."""
_OPTION = re.compile(
    rf"(?P<name>(?<![\w\-])--?{_NAME})(?P<sign>\s+(?:-\s+)?|[\"'],?\s*[\"'])(?P<value>{_QUOTED}|[^\s\"',]+)",
    re.IGNORECASE,
)
"""``--name value``, and as two strings of a list of Python, JSON or YAML."""
_NAMED = re.compile(
    rf"(?P<name>\bname\\?[\"']?\s*[:=]\s*\\?[\"']?{_NAME}\\?[\"']?)"
    rf"(?P<sign>\s*,?\s*\\?[\"']?value\\?[\"']?\s*[:=]\s*)"
    rf"(?P<value>{_QUOTED}|[^\s,}}\"']+)",
    re.IGNORECASE,
)
"""An entry of ``env``: ``name: X`` and ``value: y``."""
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]{0,16000}?-----END [A-Z ]*PRIVATE KEY-----|"
        r"[^\n]*(?:\n[\w+/=]{20,})*)",
        r"(?<=://)(?!git@)[^/\s@\"'<>\\]+(?=@)",  # user and password of a URL
        *(rf"(?<!\w){form}" for form in credentials.prefixed()),
        r"\b(?:sk|rk|pk)[-_](?:live[-_]|test[-_]|proj-|ant-)?[\w\-]{16,}",
        r"(?i)(?<=\bmachine )\S+\s+login\s+\S+\s+password\s+\S+",  # .netrc
        r"\beyJ[\w\-]{8,}\.[\w\-]{4,}(?:\.[\w\-]*)?",  # JSON web token
        r"(?i:(?<=\bBearer )|(?<=\bBasic ))[\w\-.~+/=]{6,}",
        r"(?i)(?<=[?&])(?:X-Amz-\w+|sig|pat|signature|token|key|access_token|auth|"
        r"sv|se|OSSAccessKeyId|AWSAccessKeyId)=[^&\s\"'<>]+",
    )
)
"""Texts of a known form; looser than those of the chart, since a report loses little by them."""
_ENCLOSED = tuple(
    re.compile(f"(?P<before>{each.before})(?:{each.secret})(?P<after>{each.after})")
    for each in credentials.enclosed()
)


@dataclass(frozen=True)
class Redactor:
    """Replaces secrets by `REDACTED`.

    >>> Redactor().text("url=https://me:pass@host/x HF_TOKEN=abc tokens=12 eos_token=</s>")
    'url=https://[redacted]@host/x HF_TOKEN=[redacted] tokens=12 eos_token=</s>'
    >>> Redactor(("hunter22",)).text("it is hunter22")
    'it is [redacted]'
    """

    known: tuple[str, ...] = ()
    """Exact values, such as those of the caller's own environment."""
    _spellings: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Prepare the spellings of the known values, the longest first."""
        found = {
            spelling
            for value in self.known
            if len(value) >= SHORTEST
            for spelling in (
                value,
                quote(value, safe=""),
                *_in_base64(value.encode()),
            )
        }
        object.__setattr__(self, "_spellings", tuple(sorted(found, key=len, reverse=True)))

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        for spelling in self._spellings:
            text = text.replace(spelling, REDACTED)
        for form in _FORMS:
            text = form.sub(REDACTED, text)
        for form in _ENCLOSED:
            text = form.sub(rf"\g<before>{REDACTED}\g<after>", text)
        for pattern in (_NAMED, _OPTION, _ASSIGNED):
            text = pattern.sub(_replaced, text)
        return text

    def data(self, value: Any) -> Any:
        """Return JSON data without secrets; names stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            named = value.get("name")
            hides = isinstance(named, str) and is_sensitive(named)
            return {
                self.text(str(name)): REDACTED
                if _is_secret(inside) and (is_sensitive(str(name)) or (hides and name == "value"))
                else _without_texts(inside)
                if _hides_all(str(name), inside)
                else self.data(inside)
                for name, inside in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.data(inside) for inside in self._options(value)]
        return value

    @staticmethod
    def _options(values: Iterable[Any]) -> Iterable[Any]:
        """Yield a list's values; one after ``--token`` and the like is replaced."""
        before = ""
        for value in values:
            hides = (
                before.startswith("-") and "=" not in before and is_sensitive(before.lstrip("-"))
            )
            yield REDACTED if hides and _is_secret(value) else value
            before = value if isinstance(value, str) else ""


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield what is left of a value in base64 of a longer text, by its place in a group of three.

    >>> [each in base64.b64encode(b"me:hunter22.").decode() for each in _in_base64(b"hunter22")]
    [True, False, False]
    """
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        yield text[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]


def _hides_all(name: str, inside: object) -> bool:
    """Return whether all texts in a list or map are secrets by its name, also in the plural.

    Names with `secret` hold references mostly: `secretKeyRef`, `imagePullSecrets`.
    """
    if not isinstance(inside, list | Mapping) or "secret" in name.lower():
        return False
    return is_sensitive(name) or is_sensitive(name.removesuffix("s"))


def _without_texts(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_texts(inside) for name, inside in value.items()}
    if isinstance(value, list):
        return [_without_texts(inside) for inside in value]
    return REDACTED if _is_secret(value) else value


def is_sensitive(name: str) -> bool:
    """Return whether a name announces a secret; a prefix such as `example.com/` does not count.

    >>> is_sensitive("WANDB_API_KEY"), is_sensitive("hfToken"), is_sensitive("tokens_per_second")
    (True, True, False)
    """
    name = name.rpartition("/")[2]
    return _SENSITIVE.fullmatch(name) is not None and _ORDINARY.fullmatch(name) is None


def from_environment(env: Mapping[str, str]) -> Redactor:
    """Return a redactor that also knows the secrets of an environment."""
    return Redactor(
        tuple(value for name, value in env.items() if is_sensitive(name) and _is_secret(value))
    )


def _is_secret(value: object) -> bool:
    return isinstance(value, str) and _PLAIN.fullmatch(value.strip()) is None


def _replaced(match: re.Match[str]) -> str:
    name = match["name"].strip("\"' -\\").split(" ")[-1].strip("\"'\\")
    value = match["value"].strip("\"'\\")
    if _ORDINARY.fullmatch(name) or not _is_secret(value):
        return match[0]
    mark = match["value"][0] if match["value"][0] in "\"'" else ""
    if match["value"].startswith('\\"'):
        mark = '\\"'
    return f"{match['name']}{match['sign']}{mark}{REDACTED}{mark}"
