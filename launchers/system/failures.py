"""Classify the log of a failed process: its cause, its class, and an exit code of the contract.

The last exception in its stderr decides, by the patterns of ``failure_rules/``.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from launchers.exits import CLASSES, NOTE, Exit, FailureClass, LaunchError
from launchers.system.failure_rules import origin
from launchers.system.failure_rules.causes import CAUSES
from launchers.system.failure_rules.rule import CASCADE, TERMINATED, WRAPPERS, FailureRule
from launchers.system.failure_rules.rules import PLACES, RULES
from launchers.system.remedies import RECIPE_REMEDY

TAIL = 64 * 1024
"""Bytes read from the end of a rank's log."""

_EXCEPTION = re.compile(
    r"^(?:\[rank\d+\]:\s*)?"
    r"((?:\w+\.)*_*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Full|Timeout|Invalid|Enabled|ZipFile"
    r"|GzipFile|Unavailable|Resources|Requests)|Exception|socket\.\w+|(?:\w+\.)+[eE]rror)(?::\s?(.*))?$"
    rf"(?:\n(?:\[rank\d+\]:\s*)?{NOTE}\w+ \[[\w,-]*\](?: [\w-]+)?$)?",
    re.MULTILINE,
)
_BELOW_FRAME = re.compile(
    r'^(?:\[rank\d+\]:)?[ \t]+File "[^"\n]+", line \d+, in .*\n'
    r"(?:(?:\[rank\d+\]:)?[ \t]+[^\s[].*\n){0,9}?(?:\[rank\d+\]: ?)?"
    r"((?:\w+\.)*[A-Z]\w*(?::(?!.*%\|).*)?)$",
    re.MULTILINE,
)
"""An exception of any other name, such as StopIteration."""
_TERMINATE = re.compile(
    r"terminate called after throwing an instance of '([^']+)'\s+what\(\):\s*(.*)"
)
"""The end of a C++ thread, such as NCCL's watchdog."""
_WATCHDOG = re.compile(r"watchdog thread terminated with exception: (NCCL error.*)")
"""The same, where its process ended before it could print more."""
_OWN = re.compile(rf"(.*LaunchError: .*)\n.*{NOTE}(\w+) \[([\w,-]*)\](?: ([\w-]+))?")
_ARGPARSE = re.compile(r"^\S+\.py: error: (.*)$", re.MULTILINE)
_TRACE = r".*\n(?:Traceback .*\n)?(?:[ \t]+.*\n)*(?:\S.*(?:\n|\Z))?"
_IGNORED = re.compile(rf"^Exception ignored in{_TRACE}", re.MULTILINE)
"""Exceptions raised by finalisers at exit are never the cause."""
_BESIDE = re.compile(
    rf"^(?:Exception in thread |Process \S+:$|Error in (?:atexit|sys\.excepthook)){_TRACE}"
    rf"(?:\n(?:During handling|The above exception){_TRACE[:4]}\n{_TRACE[4:]})*",
    re.MULTILINE,
)
"""Exceptions of threads, child processes and at exit; the main thread's is more often the cause."""
_UNSAID = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))|^ +[|+] "
    r"|^\[INFO:swift\] \[[A-Z\d_]*(?:INPUT|LABELS|GENERATE)[A-Z_]*\](?s:.*?)(?=^\[[A-Z]+:\w+\] )",
    re.MULTILINE,
)
"""Colours and links (ECMA-48), the bars of an exception group, and a row that ms-swift shows
(``swift/template/base.py``: ``print_inputs``)."""
_PREFIX = re.compile(r"^(?!\s|\[rank)(.+?[ \t:])(?:\[rank\d+\]: ?)?Traceback \(most", re.M)
"""What a logger or a starter of processes writes before each line of a traceback."""
_ERRNO = re.compile(r"(?<!['\"])\[Errno (\d+)\] .*?(?=: b?['\"]|$)", re.M)
"""An error of the system, in the words of any language."""
_RANK = re.compile(r"^\[rank(\d+)\]:", re.M)
_SURVIVED = re.compile(
    r"[|\u2502]|\[?(?:DEBUG|INFO|WARNING)\b|(?:\[rank\d+\]: )?File \"|(?:\[rank\d+\]:)?\[[IW]\d{4} "
    r"|\S+ \[\d+\] NCCL INFO "
)
"""Begins a line that reports no error: of a table, a trace's file, a level."""
_QUOTED = re.compile(r"^((?:Assertion|Key|Type|Value)Error.*?[\[{])\s*[\[{'\"](?s:.*)")
"""A row or a list in a message, whose words are not the error's."""
_NAMING = re.compile(
    r"(?:\w+\.)*(?:Key|Index|Lookup|Attribute|FrozenInstance|Name|Value|Type|Assertion)Error:"
    r"|\S*ArrowInvalid:"
)
_NAMES = re.compile(r"(?<!\w)(?:'[^']*'|\"[^\"]*\")(?!\w)")
"""What a program's error quotes is its own key, name or value: no word of the system."""
_SPACED = re.compile(
    r"(?<!\w)['\"\u2018\u201c\xab][^'\"\u2019\u201d\xbb\n]*/[^'\"\u2019\u201d\xbb\n]*"
)
"""A quoted path, whose words are not the error's either."""
_PATH = re.compile(r": b?'[^']*/[^']*'")
"""A file's name tells of storage and of /dev/shm, nothing of devices and networks."""
_FIRST = re.compile(r"\s*(?:\[rank\d+\]:\s*)?(?!Traceback|\[rank)(\S.*)")
"""The line behind an exception whose text begins with a new line."""
_CHAINED = re.compile(
    r"The above exception was the direct cause of|During handling of the above exception"
)
_PROGRESS = re.compile(r"^.*\d%\|.*\| \d+/\d+ \[[^\]]*\]")
"""The bar of tqdm, which ends without a new line. Without the anchor a search takes seconds in a
long line, such as ms-swift's of all arguments: a restart waits for it."""
_FRAME = re.compile(r'^(?:\[rank\d+\]:)?\s+File "(?:.*/site-packages/)?([^"]+)", line (\d+),', re.M)
_ROW = re.compile(
    r"^(?:\[rank\d+\]:\s*)?([\w.]*(?:Error|Exception)\b.*)$(?:\n.*){1,3}?There are errors in the "
    r"(?:dataset|template\.encode)",
    re.MULTILINE,
)
"""The exception of a row that ms-swift leaves out (``swift/dataset/preprocessor/core.py``,
``dataset/utils.py``); each process logs the first ten."""
_NO_ROWS = re.compile(r"origin length: [1-9]\d*, filtered dataset length: 0\b")
"""ms-swift left out every row (``swift/dataset/preprocessor/core.py``: ``__call__``)."""
_ABORTS = frozenset(rule.id for rule in CAUSES if rule.in_log)
_ABORTING = frozenset({FailureClass.INFRA, FailureClass.GPU_MEMORY, FailureClass.HOST_MEMORY})
"""Failures of the node that C++ code ends its process for, after Python has raised them, too."""
_WEAK = frozenset({"exception", *(rule.id for rule in CAUSES if rule.weak)})
_GENERAL = frozenset({"exception", "plugin", "recipe-or-plugin"})
"""Verdicts by the type of an exception, whose text is of no known cause."""
_OUTSIDE = _ABORTING | {FailureClass.STORAGE}
_FILES = frozenset({FailureClass.STORAGE, FailureClass.HOST_MEMORY})
_SYSTEM = _OUTSIDE | {FailureClass.NETWORK, FailureClass.HANG}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Classification of one log."""

    id: str
    cause: str
    remedy: str
    code: Exit = Exit.PEER
    cascade: bool = False
    failure_class: FailureClass = FailureClass.UNKNOWN
    log: Path | None = None
    """The file that contains the cause, if it was read from one of several."""

    @property
    def explains_abort(self) -> bool:
        """Return whether it explains why a rank aborted itself (SIGABRT, SIGBUS)."""
        return self.cascade or self.id in _ABORTS or self.failure_class in _ABORTING

    def error(self, logs: Path | None = None) -> LaunchError:
        """Return the error that ends the launcher; with ``logs`` it says where to look."""
        remedy = self.remedy if logs is None else f"{self.remedy}; logs: {self.log or logs}"
        return LaunchError(
            self.code, self.cause, remedy, id=self.id, failure_class=self.failure_class
        )


def verdict(text: str, *, started: bool) -> Verdict | None:
    """Classify one log by its last exception; None if it holds none and no line states the cause.

    ``started``: a training step was completed.
    """
    text = _IGNORED.sub("", _plain(text))
    if len(ranks := {*_RANK.findall(text)}) > 1:  # their lines are mixed
        lines = text.splitlines(keepends=True)
        others = ((line for line in lines if _rank(line) in ("", rank)) for rank in sorted(ranks))
        return worst(v for own in others if (v := verdict("".join(own), started=started)))
    found = _verdict(text, started=started)
    placed = found and _with_place(found, text)
    return placed if placed is None or started else _with_rows(placed, text)


def _plain(text: str) -> str:
    r"""Return a log as its programs have written it: no colours, no prefix of a logger.

    >>> _plain("7:10 INFO Traceback (most recent call last):\n7:11 INFO   File")
    'Traceback (most recent call last):\n  File'
    """
    text = _UNSAID.sub("", text)
    for prefix in {re.sub(r"\d+", r"\\d+", re.escape(each)) for each in _PREFIX.findall(text)}:
        text = re.sub(f"^{prefix}", "", text, flags=re.MULTILINE)
    return _ERRNO.sub(_in_english, text)


def _in_english(said: re.Match[str]) -> str:
    words = os.strerror(int(said[1]))
    return said[0] if words in said[0] else f"{said[0]} {words}"


def _rank(line: str) -> str:
    return match[1] if (match := _RANK.match(line)) else ""


def _with_place(found: Verdict, text: str) -> Verdict:
    """Return the verdict by the code that raised the exception, if its words tell less."""
    places = [(id, pattern) for ids, id, pattern in PLACES if found.id in ids]
    frames = text[text.rfind("Traceback (") + 1 :] if places else ""
    id = next((id for id, pattern in places if pattern.search(frames)), "")
    rule = next((rule for rule in (*CAUSES, *RULES) if rule.id == id), None)
    return found if rule is None else _by(rule, found.cause, rule.code)


def _with_rows(found: Verdict, text: str) -> Verdict:
    """Add the most frequent exception among the rows that were left out before the first step."""
    is_recipe = found.id == "recipe-or-plugin"
    if is_recipe and _NO_ROWS.search(text):
        found = replace(
            found,
            code=Exit.DATA,
            id="dataset-rows-left-out",
            cause=f"ms-swift left out every row of the dataset; then {found.cause}",
            remedy="correct the rows of the dataset (recipe.dataset), or recipe.args.columns",
            failure_class=FailureClass.DATA,
        )
    rows = Counter(match[1].strip() for match in _ROW.finditer(text))
    if not rows or not (is_recipe or found.failure_class == FailureClass.DATA):
        return found
    ((error, count),) = rows.most_common(1)
    said = (
        f"{found.cause}; of {rows.total()} rows whose error was logged {count} failed with {error}"
    )
    return replace(found, cause=said)


def _verdict(text: str, *, started: bool) -> Verdict | None:
    chain = _last_chain(_BESIDE.sub("", text)) or _last_chain(text)
    found = _of_chain(chain, started=started) if chain else None
    if started and found and len(chain) == 1 and _is_raised(origin.PLUGIN, found, text):
        return Verdict(id="plugin", cause=found.cause, remedy="check the plugin and the rank's log")
    if found is not None and not started and _is_own_check(found, text):
        return replace(
            found,
            code=Exit.CONFIG,
            id="raised-before-first-step",
            remedy=RECIPE_REMEDY,
            failure_class=FailureClass.USER,
        )
    if found is None or found.cascade or found.id in _WEAK:
        others = _of_beside(text, started=started) if found and found.id == "exception" else None
        return _of_lines(text, started=started) or others or found or _of_terminate(text)
    return found


def _of_beside(text: str, *, started: bool) -> Verdict | None:
    """Classify what ended a thread or a child process, if it is a failure outside the program."""
    ends = [chain[-1] for m in _BESIDE.finditer(text) if (chain := _last_chain(m[0]))]
    return _outside(reversed(ends), started=started)


def _is_own_check(found: Verdict, text: str) -> bool:
    """Return whether the training code itself raised an exception of no known cause."""
    return found.id == "exception" and _is_raised(origin.CHECK, found, text)


def _is_raised(pattern: re.Pattern[str], found: Verdict, text: str) -> bool:
    raised = (match[1].rstrip() for match in pattern.finditer(text))
    cause = found.cause.partition(" at ")[0]
    return any(found.cause.startswith(each) or each == cause for each in raised)


def _of_chain(chain: list[str], *, started: bool) -> Verdict:
    """Classify the last exception by itself, by what it wraps, or as a cascade."""
    last = chain[-1]
    own = _OWN.fullmatch(last)
    if own and (code := Exit.__members__.get(own[2])):
        return Verdict(
            code=code,
            id=own[3],
            cause=own[1],
            remedy="follow the message",
            failure_class=FailureClass(own[4] or CLASSES[code]),
        )
    wrapped = list(reversed(chain)) if WRAPPERS.search(last) else [last]
    wrapped.sort(key=lambda e: bool(WRAPPERS.search(e)))
    found = _first_match(CAUSES, wrapped, started=started)
    if found is None and any(map(CASCADE.search, map(_nameless, chain))):
        terminated = TERMINATED.search(last)
        return Verdict(
            id="cascade",
            cause=last,
            remedy="check the rank's log",
            cascade=True,
            failure_class=FailureClass.PREEMPTION if terminated else FailureClass.NETWORK,
        )
    found = found or _first_match(RULES, wrapped, started=started)
    found = found or Verdict(id="exception", cause=last, remedy="check the rank's log")
    if found.id in _GENERAL:  # a handler of the cause failed, too
        return _outside(reversed(chain[:-1]), started=started) or found
    return found


def _outside(messages: Iterable[str], *, started: bool) -> Verdict | None:
    """Return the verdict of the first message of a known cause, if that is not in the program."""
    found = _first_match((*CAUSES, *RULES), messages, started=started)
    return found if found and found.failure_class in _OUTSIDE and found.id not in _WEAK else None


def _first_match(
    rules: Iterable[FailureRule], messages: Iterable[str], *, started: bool
) -> Verdict | None:
    rules = tuple(rules)
    for message in messages:
        said = _QUOTED.sub(r"\1", _SPACED.sub(lambda m: m[0].replace(" ", "_"), message))
        bare, nameless = _unquoted(said), _nameless(said)
        for rule in rules:
            text = said
            if rule.failure_class in _SYSTEM:
                text = bare if rule.failure_class in _FILES else nameless
            if rule.pattern.search(text) and not (rule.early and started):
                return _by(rule, message, rule.later if rule.later and started else rule.code)
    return None


def _unquoted(message: str) -> str:
    return _NAMES.sub("''", message) if _NAMING.match(message) else message


def _nameless(message: str) -> str:
    return _PATH.sub("", _unquoted(message))


def _by(rule: FailureRule, cause: str, code: Exit) -> Verdict:
    kind = rule.failure_class
    return Verdict(id=rule.id, cause=cause, remedy=rule.remedy, code=code, failure_class=kind)


def _of_lines(text: str, *, started: bool) -> Verdict | None:
    """Classify by a line that states the cause: C++ threads and the driver raise no exception."""
    rules = [rule for rule in CAUSES if rule.in_log and not (rule.early and started)]
    lines = [" ".join(_PROGRESS.sub("", line).split()) for line in text.splitlines()]
    bare = [(line, _unquoted(line)) for line in lines if not _SURVIVED.match(line)]
    seen = ((rule, line) for rule in rules for line, text in bare if rule.pattern.search(text))
    found = (_first_match([rule], [line], started=started) for rule, line in seen)
    return next(filter(None, found), None)


def _of_terminate(text: str) -> Verdict | None:
    """Classify the end of a C++ thread in a process that raised no exception."""
    ends = [f"{kind}: {what}" for kind, what in _TERMINATE.findall(text)]
    ends = ends or _WATCHDOG.findall(text)
    return _of_chain(ends[-1:], started=True) if ends else None


def _last_chain(text: str) -> list[str]:
    """Return the last exception and its causes, the first cause first."""
    found = [(m.start(), m.end(), m.group(0).strip()) for m in _EXCEPTION.finditer(text)]
    lines = {begin for begin, _, _ in found}
    for m in _BELOW_FRAME.finditer(text):
        if (begin := text.rfind("\n", 0, m.start(1)) + 1) not in lines:
            found.append((begin, m.end(), m[1]))
    found += [(m.start(), m.end(), f"error: {m.group(1)}") for m in _ARGPARSE.finditer(text)]
    chain: list[str] = []
    follower = len(text)
    for begin, end, exception in sorted(found, reverse=True):
        if chain and not _CHAINED.search(text, end, follower):
            break
        exception = re.sub(r"^\[rank\d+\]:\s*", "", exception)
        if exception.endswith(":") and (line := _FIRST.match(text, end)):  # its text begins so
            exception = f"{exception} {line[1]}"
        elif re.fullmatch(r"[\w.]+:?", exception):  # it has no text
            exception = exception.rstrip(":") + _place(text, begin)
        chain.insert(0, exception)
        follower = begin
    return chain


def _place(text: str, begin: int) -> str:
    """Return file and line of the innermost frame before an exception, as far as they are known."""
    frames = _FRAME.findall(text, text.rfind("Traceback (", 0, begin) + 1, begin)
    return f" at {frames[-1][0]}, line {frames[-1][1]}" if frames else ""


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Choose the root cause among several ranks.

    A cause comes before a collective that timed out because of it, and before cascades; a known one
    before an unknown one, and before one that only its type tells.
    """

    def order(v: Verdict) -> tuple[bool, bool, bool, bool]:
        is_hang = v.failure_class == FailureClass.HANG
        return v.cascade, is_hang, v.id == "exception", v.id in _GENERAL

    return min(verdicts, key=order, default=None)


def tail(path: Path) -> str:
    """Read the end of a log; return an empty text if it is unreadable."""
    try:
        return end_of(path)
    except OSError:
        return ""


def end_of(path: Path) -> str:
    """Read the end of a log.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as handle:
        handle.seek(max(0, path.stat().st_size - TAIL))
        return handle.read().decode(errors="replace")
