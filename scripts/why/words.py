"""Phrases that the sentences of several states share."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from launchers.gang.barrier import format_ranks
from scripts.observe.view import Rank, View
from scripts.plan.units import time_text

Facts = Mapping[str, object]
Condition = Callable[[View], Facts | None]
SENTENCE_BYTES = 600
"""A longer message of a controller loses its middle: the cause is often its end."""
COMMAND = re.compile(r"`((megatron-dpo|kubectl|helm) (\S+)[^`]*)`")


class Template(str):
    """Words of a remedy that a condition chooses, with places for facts like the table's."""

    __slots__ = ()


NO_CLUSTER = ("plan", "config")
"""Verbs that take neither a namespace nor a context."""


def addressed(text: str, view: View) -> str:
    """Return a text whose commands name the context and namespace of a run.

    Only those that differ from what the kubeconfig selects by itself, so that the command works as
    it is copied. Commands of kubectl and Helm name their namespace already.

    >>> from scripts.observe.cluster import Snapshot
    >>> seen = Snapshot(context="a", namespace="b", run="r", now=0.0, chosen=frozenset({"context"}))
    >>> addressed("See `megatron-dpo logs r` and `helm test r -n b`.", View(seen))
    'See `megatron-dpo logs r --context a` and `helm test r -n b --kube-context a`.'
    """
    seen = view.snapshot

    def whole(match: re.Match[str]) -> str:
        command, program, verb = match.groups()
        options: list[str] = []
        has_namespace = bool(re.search(r" (-n|--namespace|-A)\b", command))
        if program == "megatron-dpo" and "namespace" in seen.chosen and not has_namespace:
            options += ["-n", seen.namespace]
        if "context" in seen.chosen:
            options += ["--kube-context" if program == "helm" else "--context", seen.context]
        if verb in NO_CLUSTER or not options:
            return match[0]
        return f"`{command} {shlex.join(options)}`"

    return COMMAND.sub(whole, text)


def chosen(remedy: str, known: Facts) -> str:
    """Return a remedy with the templates that its condition chose."""
    for name, fact in known.items():
        remedy = remedy.replace(f"{{{name}}}", fact) if isinstance(fact, Template) else remedy
    return remedy


def filled(remedy: str, known: Facts) -> str:
    """Return a remedy with its facts, those of commands as a shell reads them; a tuple is words.

    >>> filled("See `kubectl get pods {names}` of {team}.", {"names": ("a", "b c"), "team": "x y"})
    "See `kubectl get pods a 'b c'` of x y."
    """
    quoted = {
        name: shlex.join(fact if isinstance(fact, tuple) else [str(fact)])
        for name, fact in known.items()
    }
    made, end = "", 0
    for match in COMMAND.finditer(remedy):
        made += remedy[end : match.start()].format(**known) + match[0].format(**quoted)
        end = match.end()
    return made + remedy[end:].format(**known)


def compact(content: object) -> str:
    """Return JSON for a command."""
    return json.dumps(content, separators=(",", ":"))


def clean(message: str) -> str:
    """Return a controller's message for the end of a sentence: one line, without the last stop.

    >>> clean("Back-off pulling image. ")
    'Back-off pulling image'
    """
    text = " ".join(message.split())
    if len(text) > SENTENCE_BYTES:
        begin = SENTENCE_BYTES // 3
        text = f"{text[:begin].rstrip()} ... {text[begin - SENTENCE_BYTES :].lstrip()}"
    return text.rstrip(".;: ")


def after(message: str) -> str:
    """Return `: message` for a sentence, or nothing.

    >>> after("no nodes."), after("")
    (': no nodes', '')
    """
    return f": {clean(message)}" if message.strip() else ""


def who(ranks: Sequence[Rank]) -> str:
    """Return ranks with the pod and node of a single one.

    >>> rank = Rank(number=1, pod="dpo-node-0-1-x", node="n2", phase="Pending", exit_code=None,
    ...     terminating_since=None, started_at=None, reason="", end=None, message="")
    >>> who([rank])
    'rank 1 (dpo-node-0-1-x on n2)'
    """
    return ranks[0].name if len(ranks) == 1 else format_ranks({rank.number for rank in ranks})


def lasting(view: View, when: float | None) -> str:
    """Return ` for TIME` for a sentence; nothing if it is not known."""
    return f" for {time_text(max(0.0, view.now - when))}" if when else ""


def matched(pattern: str, text: str) -> dict[str, str] | None:
    """Return the named groups of a pattern in a text; None without a match."""
    found = re.search(pattern, text)
    return found.groupdict() if found else None
