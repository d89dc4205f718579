"""Tell a webhook and the cluster's events how a run goes, as rank 0's ``progress.json`` has it.

Nothing here ends a run, and its end waits for at most ``END_SECONDS``. The URL is a secret: errors
are logged by their kind, since their text may hold it.
"""

import json
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from launchers import logs
from launchers.config.settings import Launch, Reports
from launchers.exits import FREE, USER
from launchers.system import lookup
from launchers.system.atomic_file import read_object
from launchers.system.retry import RetryPolicy, is_transient, retry
from launchers.system.threads import repeat

POLL_SECONDS = 2.0
END_SECONDS = 5.0
REQUEST_SECONDS = 4.0
LOOKUP_SECONDS = 2.0
RETRIES = RetryPolicy(limit=60.0, longest=10.0)
ENDS = ("Succeeded", "Failed", "Interrupted")
WEBHOOK = (*ENDS, "Waiting")
"""Notices that the webhook gets. It also gets ``Training`` after an attempt that lost rank 0. Each
notice is written as an event."""
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One state of a run; each is sent once."""

    run: str
    reason: str
    """One of ``WEBHOOK``, or ``Training``."""
    attempt: int
    text: str
    step: int | None = None
    total: int | None = None


def notice(progress: Mapping[str, Any], run: str, *, waited: float, limit: float) -> Notice | None:
    """Return the notice of a run's state; None before it has one to send.

    ``waited``: seconds since the file changed; ``limit``: those worth a message without the gang.

    >>> notice({"state": "failed", "code": 143, "why": "SIGTERM"}, "r", waited=0, limit=9).text
    'Run r was interrupted and resumes from its last checkpoint: SIGTERM'
    """
    training, attempt = progress.get("training") or {}, int(progress.get("attempt") or 0)
    state, why, code = progress.get("state"), progress.get("why") or "", progress.get("code")
    restarts = progress.get("restarts_in_place") or []
    is_gathering = progress.get("stage") == "train" and state == "running"
    is_started = "gang" in (progress.get("phases") or {}) or bool(restarts)
    if state == "succeeded":
        reason, text = "Succeeded", "has ended; its checkpoint is in export/"
    elif state == "failed" and code in FREE:
        reason, text = "Interrupted", f"was interrupted and resumes from its last checkpoint: {why}"
    elif state == "failed":
        then = "no restart follows" if code in USER else "it restarts while restarts.max allows"
        reason, text = "Failed", f"has failed (exit code {code}), {then}: {why}"
    elif is_gathering and is_started:
        again = f" again in the same pods after: {restarts[-1]['why']}" if restarts else ""
        reason, text = "Training", f"trains, attempt {attempt}{again}"
    elif is_gathering and waited >= limit:
        reason, text = "Waiting", f"waits for its gang for {waited:.0f} s; megatron-dpo why {run}"
    else:
        return None
    steps = {name: training.get(name) for name in ("step", "total")}
    return Notice(run=run, reason=reason, attempt=attempt, text=f"Run {run} {text}", **steps)


@contextmanager
def notifying(launch: Launch, reports: Reports) -> Iterator[None]:
    """Send the notices of the run while the block runs, on rank 0."""
    if not (reports.webhook_url or reports.events):
        yield
        return
    notifier = _Notifier(launch, reports)
    try:
        with repeat(notifier.look, POLL_SECONDS, "notify"):
            yield
    finally:
        notifier.look()
        stop = time.monotonic() + END_SECONDS
        for thread in notifier.sending:
            thread.join(max(0.0, stop - time.monotonic()))


class _Notifier:
    """Sends each notice once, in a thread of its own."""

    def __init__(self, launch: Launch, reports: Reports) -> None:
        self._launch, self._reports = launch, reports
        self._last = ("", 0)
        before = read_object(launch.work.progress)
        self._before = before.get("started")
        """Of an earlier launcher, until this one writes the file."""
        self._was_lost = before.get("state") == "running"
        """Whether that launcher ended without a notice, as with its node."""
        self._looking = threading.Lock()
        self.sending: list[threading.Thread] = []

    def look(self) -> None:
        """Read the state, and send it if it is new; an error is only logged."""
        try:
            self._look()
        except Exception as error:  # e.g. an invalid URL
            logs.warning("notice not sent", cause=type(error).__name__)

    def _look(self) -> None:
        with self._looking, lookup.within(LOOKUP_SECONDS):
            launch, reports = self._launch, self._reports
            progress = read_object(launch.work.progress)
            if not progress or progress.get("started") == self._before:
                return
            waited = time.time() - float(progress.get("updated") or 0)
            found = notice(progress, launch.run, waited=waited, limit=reports.webhook_wait)
            if found is None or (found.reason, found.attempt) == self._last:
                return
            self._last = (found.reason, found.attempt)
            is_told = found.reason in WEBHOOK
            if self._was_lost and not is_told:
                self._was_lost, is_told = False, True
                found = replace(found, text=f"{found.text}; rank 0 of the attempt before was lost")
            if reports.webhook_url and is_told:
                self._send("webhook", webhook(reports.webhook_url, found), None)
            if reports.events:
                self._send("event", *event(found, launch.jobset_uid))

    def _send(
        self, what: str, request: urllib.request.Request | None, context: ssl.SSLContext | None
    ) -> None:
        if request is not None:
            thread = threading.Thread(target=send, args=(what, request, context), daemon=True)
            thread.start()
            self.sending = [each for each in self.sending if each.is_alive()] + [thread]


def webhook(url: str, found: Notice) -> urllib.request.Request | None:
    """Return the request to a webhook: Slack's ``text``, and the fields of the notice."""
    if not url.startswith(("https://", "http://")):
        logs.warning("webhook not sent", cause="its URL begins neither with https:// nor http://")
        return None
    return _request(url.strip(), asdict(found), {})


def event(
    found: Notice, uid: str, *, account: Path = ACCOUNT, api: str = API
) -> tuple[urllib.request.Request | None, ssl.SSLContext | None]:
    """Return the request that creates an event on the JobSet, and whom it trusts."""
    try:
        space = (account / "namespace").read_text(encoding="utf-8").strip()
        token = (account / "token").read_text(encoding="utf-8").strip()
        context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    except OSError as error:
        logs.warning("event not sent", cause=type(error).__name__)
        return None, None
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": found.run}
    content = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{found.run}-", "namespace": space},
        "involvedObject": {**about, "namespace": space, **({"uid": uid} if uid else {})},
        "reason": found.reason,
        "message": found.text[:1024],  # the API server's limit
        "type": "Warning" if found.reason in ("Failed", "Waiting") else "Normal",
        "source": {"component": "megatron-dpo"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    url = f"{api}/api/v1/namespaces/{space}/events"
    return _request(url, content, {"Authorization": f"Bearer {token}"}), context


def _request(url: str, content: object, headers: Mapping[str, str]) -> urllib.request.Request:
    body = json.dumps(content).encode()
    return urllib.request.Request(
        url, body, {"Content-Type": "application/json", **headers}, method="POST"
    )


class SendError(Exception):
    """A message was not sent; ``args[0]`` holds nothing of its URL."""

    def __init__(self, cause: str, *, is_transient: bool) -> None:
        """Note the kind of the error, and whether a retry may help."""
        super().__init__(cause)
        self.is_transient = is_transient


def send(what: str, request: urllib.request.Request, context: ssl.SSLContext | None) -> None:
    """Send a request, again after errors that may pass; a failure is only logged."""

    def act() -> None:
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS, context=context):
                return
        except HTTPError as error:
            raise SendError(f"HTTP {error.code}", is_transient=is_transient(error.code)) from None
        except Exception as error:  # also of an invalid URL
            cause = getattr(error, "reason", error)
            passes = isinstance(error, OSError) and not isinstance(cause, ssl.SSLError)
            raise SendError(type(cause).__name__, is_transient=passes) from None

    try:
        retry(what, act, lambda e: isinstance(e, SendError) and e.is_transient, RETRIES)
    except SendError as error:
        logs.warning(f"{what} not sent", cause=error)
