"""Remove secrets from text and data that leave the cluster: reports and bundles.

Three rules: values under names that announce a secret, texts in the form of a known kind of secret,
and exact values that the caller knows. A secret under an innocent name in no known form is found by
the third rule only, so callers leave out all that may hold one, such as the environment.
"""

import base64
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from scripts import credentials

REDACTED = "[redacted]"
SHORTEST = 6
"""Characters of a known value; a shorter one would also remove ordinary words."""
_NAME = (
    rf"[\w.\-]{{0,64}}(?:{credentials.words()}|(?<![A-Za-z])(?:creds?|auth|pat|dsn))"
    r"(?:[_-]?(?:id|value|data))?"
)
_ORDINARY = re.compile(credentials.ordinary(), re.IGNORECASE)
_SENSITIVE = re.compile(_NAME, re.IGNORECASE)
_PLAIN = re.compile(
    r"(?:-?[\d.]+(?:e[+-]?\d+)?|true|false|null|none|\[redacted\]?)?", re.IGNORECASE
)
"""Values that are not secrets under any name: numbers, truth values, nothing."""

_ESCAPED = r"\\\"[^\"\\]*\\\""
_OF_SECRETS = frozenset(("existingSecret", "secretName", "secretRef", "secretKeyRef"))
_REFERENCES = _OF_SECRETS | {"name", "path", "audience"}
"""Keys below a name such as `webhook` or `serviceAccountToken` that hold no secret."""
_PATCH = frozenset(("effect", "state", "functions"))
"""Keys of a patch in a checkpoint's ``features.json``; one patch is called ``tokens``."""
LONGEST = 4000
"""Characters up to a closing bracket; without one the rest of the line is taken."""
_REST = re.compile(r".?[ \t]*(?:\n[ \t]+[^\n]*)+|[^\n]*")
"""The rest of a line; below a bracket at its end, as in JSON that was cut, the indented lines."""
_NEAR = r"\"(?:\\.|[^\"\\]){0,200}+\"|'(?:\\.|[^'\\]){0,200}+'"
"""A text in quotes, which may never end; of a longer one the parts count."""
_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_ASSIGNED = re.compile(
    rf"(?P<name>(?<![\w.\-]){_NAME})(?P<sign>\\?[\"']?\s*(?:=>|[=:]|%3D)"
    r"(?:[ \t]*|\s*(?:-\s+)?(?![\w.\-/\"']+:(?:\s|$))))"
    rf"(?P<value>(?:(?:Bearer|Basic|Token)\s+)?"
    rf"(?:{_ESCAPED}|{_QUOTED}|(?!-\s|[\[{{(])[^\s,;&|)}}\]\"']+))",
    re.IGNORECASE,
)
"""``NAME=value``, ``name: value``, ``"name": "value"``, also inside a string of JSON."""
_OPENED = re.compile(
    rf"(?P<name>(?<![\w.\-]){_NAME}s?)\\?[\"']?\s*(?:=>|[=:])\s*(?=[\[{{(])(?!\[redacted\])",
    re.IGNORECASE,
)
"""The name of a list or a map, up to its opening bracket."""
_BLOCK = re.compile(
    rf"^(?P<indent>[ \t]*)(?:- +)?[\"']?(?P<name>{_NAME}s?)[\"']?:[ \t]*"
    r"(?P<inside>(?:\n(?P=indent)(?:[ \t]*-[ \t]|[ \t]+(?=[\w.\-/\"']+:(?:\s|$)))[^\n]*)+)",
    re.IGNORECASE | re.MULTILINE,
)
"""The same as lines of YAML."""
_BRACKET = re.compile(
    rf"{_ESCAPED}|\"(?:\\.|[^\"\\\n]){{0,1000}}+\"|'(?:\\.|[^'\\\n]){{0,1000}}+'|(?P<open>[\[{{(])|(?P<close>[\]}})])"
)
_KEY = r"(?:\\\"|[\"'])(?P<key>[^\"'\\\n]*)\\?[\"'][ \t]*(?:=>|[:=])[ \t]*"
_BARE_KEY = r"(?P<bare_key>[\w.\-/]+)[ \t]*(?:=>|[:=](?=[\s\\\"'\[{(]|$))[ \t]*"
_INSIDE = re.compile(
    rf"(?P<before>{_KEY}|{_BARE_KEY})?"
    rf"(?P<value>\[redacted\]|{_ESCAPED}|{_NEAR}|(?!-\s)[^\s,;\[\]{{}}()\"'\\]+|(?=[\[{{(\n]|$))"
)
"""A text of a list or map with the key before it; empty between a key and a bracket."""
_OPTION = re.compile(
    rf"(?P<name>(?<![\w\-])--?{_NAME})(?P<sign>\s+(?:-\s+)?|[\"'],?\s*[\"'])(?P<value>(?![\"']?-)(?:{_QUOTED}|[^\s\"',]+))",
    re.IGNORECASE,
)
"""``--name value``, and as two strings of a list of Python, JSON or YAML; no option follows it."""
_LISTED = re.compile(
    rf"(?P<name>(?<![\w\-])--?{_NAME})(?P<sign>[\"']?,\s*)"
    rf"(?P<value>(?![\"']?-)(?:{_QUOTED}|[^\s\"',\]]+))(?=\s*[,\]])",
    re.IGNORECASE,
)
"""``[--name, value]`` of YAML."""
_NAMED = re.compile(
    rf"(?P<name>\bname\\?[\"']?\s*[:=]\s*\\?[\"']?{_NAME}\\?[\"']?)"
    rf"(?P<sign>\s*,?\s*\\?[\"']?value\\?[\"']?\s*[:=]\s*)"
    rf"(?P<value>{_QUOTED}|[^\s,}}\"']+)",
    re.IGNORECASE,
)
"""An entry of ``env``: ``name: X`` and ``value: y``."""
_LOGIN = r"(?:\s+(?:login|account)\s+\S+)"
_PASSWORD = r"\s+password\s+(?![:=])\S+"
_NETRC = tuple(
    rf"(?i){entry}(?:{_LOGIN}{least}{_PASSWORD}{_LOGIN}*|{_PASSWORD}{_LOGIN}{least})"
    for entry, least in ((r"(?<=\bmachine\s)\s*\S+", "*"), (r"(?<=\bdefault)", "+"))
)
"""Entries of .netrc; `default password ...` alone is prose."""
_IN_URL = r"(?:(?!://)[^\s\"'<>\\])"
_USER = r"(?<=://)(?!git@)[^/\s:\"'<>\\]*:"
_PORT = r"\d{1,5}[/?#]"
"""Also the first digits of a password."""
_HOST = (
    r"(?:\[|\d+(?:\.\d+){3}\b|[\w.\-]*\.[A-Za-z]{2,}(?![\w.])|"
    r"(?!(?:v?\d[\w.\-]*|main|master)[:/])[\w.\-]+(?::\d{1,5}(?!\w)|/))"
)
"""A host after @: an address, a name with a domain, or any name with a port or path, which is not
a version or an image's digest. ``a@b`` alone may be a revision, ``/@b`` the scope of a package."""
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]{0,16000}?-----END [A-Z ]*PRIVATE KEY-----|"
        r"[^\n]*(?:\n[\w+/=]{20,})*)",
        # user and password of a URL, the password with any of @/#?: up to the last @ of the word
        rf"{_USER}(?!{_PORT}(?!{_IN_URL}*?(?<!/)@{_HOST})){_IN_URL}+(?=@[\w\[])",
        # URLs of databases and the like have no revisions
        rf"(?<!https://)(?<!http://)(?<!ssh://)(?<!git://){_USER}"
        rf"(?!{_PORT}{_IN_URL}*?@sha\d+:){_IN_URL}+(?=@[\w\[])",
        r"(?<=://)(?!git@)[^/\s\"'<>\\]+(?=@)",
        *(rf"(?<!\w){form}" for form in credentials.prefixed()),
        r"\b(?:sk|rk|pk)[-_](?:live[-_]|test[-_]|proj-|ant-)?[\w\-]{16,}",
        *_NETRC,
        r"\beyJ[\w\-]{8,}\.[\w\-]{4,}(?:\.[\w\-]*)?",  # JSON web token
        r"(?i:(?<=\bBearer )|(?<=\bBasic ))[\w\-.~+/=]{6,}",
        r"(?i)(?<=[?&])(?:X-Amz-\w+|sig|pat|signature|token|key|access_token|auth|"
        r"sv|se|OSSAccessKeyId|AWSAccessKeyId)=[^&\s\"'<>]+",
    )
)
"""Texts of a known form; looser than those of the chart, since a report loses little by them."""
_SAID = (
    # the last parts of a webhook on any host
    (r"https?://[^\s\"'<>/]+/(?:[^\s\"'<>/]+/){0,4}(?:incoming-?)?(?:web)?hooks?/", r"[^\s\"'<>]+"),
    # 40 digits are a commit elsewhere
    (
        r"(?i:\b(?:wandb|swanlab)\b[^\n]{0,80}?\b(?:log(?:in|ged in)|key)\b[^\n]{0,20}?\b)",
        r"[0-9a-f]{40,}",
    ),
    (r"(?i:\b(?:mysql|mariadb|sshpass)[\w-]*\b[^\n|;&]{0,200}?\s-p)", r"[^\s\"']+"),
    (r"(?:\s(?:-u|-U|--user|--proxy-user)[ =]?[\"']?(?!\d+:\d+\b)[^\s:\"'/]+:)", r"[^\s\"']+"),
    (rf"(?i:\b(?:{credentials.words()})\s+(?:is|was)\s+[\"']?)", r"(?=\S*\d)(?=\S*[A-Za-z])\S{6,}"),
)
"""What announces a secret, and its form."""
_ENCLOSED = tuple(
    re.compile(f"(?P<before>{before})(?:{secret})(?P<after>{after})")
    for before, secret, after in (
        *((each.before, each.secret, each.after) for each in credentials.enclosed()),
        *((before, secret, "") for before, secret in _SAID),
    )
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
            for spelling in (value, quote(value, safe=""), *_in_base64(value.encode()))
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
        text = _BLOCK.sub(_without_lines, _without_contents(text))
        for pattern in (_NAMED, _OPTION, _LISTED, _ASSIGNED):
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
                else self._without_texts(inside)
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
            is_option = isinstance(value, str) and value.startswith("-")
            yield REDACTED if hides and not is_option and _is_secret(value) else value
            before = value if isinstance(value, str) else ""

    def _without_texts(self, value: Any, above: str = "") -> Any:
        """Replace the texts of a list or map that its name declares secret, except references."""
        if isinstance(value, Mapping):
            kept = _references((*value, above))
            return {
                self.text(str(name)): self.text(inside)
                if name in kept and isinstance(inside, str)
                else self._without_texts(inside, str(name))
                for name, inside in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._without_texts(inside, above) for inside in value]
        return REDACTED if _is_secret(value) else value


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield what is left of a value in base64 of a longer text, by its place in a group of three.

    >>> [each in base64.b64encode(b"me:hunter22.").decode() for each in _in_base64(b"hunter22")]
    [True, False, False]
    """
    for before in range(3):
        text = base64.b64encode(bytes(before) + value).decode()
        yield text[-(-before * 8 // 6) : (before + len(value)) * 8 // 6]


def _hides_all(name: str, inside: object) -> bool:
    """Return whether all texts in a list or map are secrets by its name, also in the plural."""
    if not isinstance(inside, list | tuple | Mapping):
        return False
    if isinstance(inside, Mapping) and (
        inside.keys() >= _PATCH or inside.keys() & {*_OF_SECRETS, "items"}
    ):
        return False
    return is_sensitive(name) or is_sensitive(name.removesuffix("s"))


def _references(keys: Container[str]) -> frozenset[str]:
    """Return the keys that name a Secret, its key, a file or an audience.

    ``key`` does so in a map with, or under, one of `_OF_SECRETS`; elsewhere it may hold a secret.
    """
    return _REFERENCES | {"key"} if any(each in keys for each in _OF_SECRETS) else _REFERENCES


def is_sensitive(name: str) -> bool:
    """Return whether a name announces a secret; a prefix such as `example.com/` does not count.

    >>> is_sensitive("WANDB_API_KEY"), is_sensitive("hfToken"), is_sensitive("tokens_per_second")
    (True, True, False)
    """
    last = name.rpartition("/")[2]
    return _SENSITIVE.fullmatch(last) is not None and not _is_ordinary(name, last)


def _is_ordinary(*names: str) -> bool:
    return any(_ORDINARY.fullmatch(name) for name in names)


def from_environment(env: Mapping[str, str]) -> Redactor:
    """Return a redactor that also knows the secrets of an environment."""
    return Redactor(
        tuple(value for name, value in env.items() if is_sensitive(name) and _is_secret(value))
    )


def _is_secret(value: object) -> bool:
    return isinstance(value, str) and _PLAIN.fullmatch(value.strip()) is None


def _without_contents(text: str) -> str:
    """Return a text without those in lists and maps whose name declares them secret."""
    parts, done = [], 0
    ends: dict[int, int] = {}
    for match in _OPENED.finditer(text):
        if match.start() < done or not _hides_texts(match):
            continue
        if match.end() not in ends:
            ends |= _ends(text, match.end())
        end = ends[match.end()] or _rest(text, match.end())
        parts += [text[done : match.end()], _without_values(match["name"], text[match.end() : end])]
        done = end
    return "".join((*parts, text[done:]))


def _without_lines(match: re.Match[str]) -> str:
    """Return lines of YAML without the texts below a name that declares them secret."""
    if not _hides_texts(match):
        return match[0]
    before = match.string[match.start() : match.start("inside")]
    return before + _without_values(match["name"], match["inside"])


def _hides_texts(match: re.Match[str]) -> bool:
    """Return whether a name hides what is in the brackets after it; see `_hides_all`."""
    name = match["name"]
    return is_sensitive(name) or is_sensitive(name.removesuffix("s"))


def _ends(text: str, start: int) -> dict[int, int]:
    """Return where lists and maps end, by their begin; 0 for no end within `LONGEST`.

    One look serves all that begin in it, so that brackets without an end cost no more than others.
    """
    last = start + 16 * LONGEST
    begun, found = [start], {start: 0}
    for match in _BRACKET.finditer(text, start + 1, last):
        if match["open"]:
            begun.append(match.start())
        elif match["close"]:
            begin = begun.pop()
            found[begin] = match.end() if match.end() - begin <= LONGEST else 0
            if not begun:
                return found
    known = [each for each in begun if last >= len(text) or each + LONGEST <= last]
    return found | dict.fromkeys(known, 0)


def _rest(text: str, start: int) -> int:
    """Return where the rest of an unfinished list or map ends."""
    rest = _REST.match(text, start)
    return rest.end() if rest else len(text)


def _without_values(name: str, content: str) -> str:
    """Return the content of brackets without its texts.

    Under `tokens` only quoted ones count: `tokens = [tokenizer(row) for row in rows]`.
    """
    keys = {match["key"] or match["bare_key"] for match in _INSIDE.finditer(content)}
    kept, takes_bare = _references(keys), not name.lower().endswith("tokens")

    def replaced(match: re.Match[str]) -> str:
        value, before = match["value"], match["before"] or ""
        mark = _mark(value)
        is_kept = (match["key"] or match["bare_key"]) in kept or not (mark or takes_bare)
        if is_kept or not _is_secret(value.strip("\"'\\")):
            return match[0]
        return f"{before}{mark}{REDACTED}{mark}"

    return _INSIDE.sub(replaced, content)


def _mark(value: str) -> str:
    """Return the quotation mark with which a value begins; empty without one."""
    if value.startswith('\\"'):
        return '\\"'
    return value[:1] if value[:1] in ("'", '"') else ""


def _prefixed(match: re.Match[str]) -> str:
    """Return a name with the prefix before it, such as `vault.hashicorp.com/`."""
    before = re.search(r"[\w.\-]*/$", match.string[max(0, match.start() - 254) : match.start()])
    return (before[0] if before else "") + match["name"]


def _replaced(match: re.Match[str]) -> str:
    name = match["name"].strip("\"' -\\").split(" ")[-1].strip("\"'\\")
    value = match["value"].strip("\"'\\")
    if _is_ordinary(name, _prefixed(match)) or not _is_secret(value):
        return match[0]
    mark = _mark(match["value"])
    return f"{match['name']}{match['sign']}{mark}{REDACTED}{mark}"
