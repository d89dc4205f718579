"""Send the run's webhook while none of its pods can: in the queue, or where no pod is created.

Pods send the other messages (`launchers/progress/notify.py`). The URL is read from its Secret when
a message is due, with the rights of the user, and is never printed.
"""

import base64
import binascii
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from launchers.progress import notify
from launchers.progress.notify import Notice
from scripts.doctor.api import SECRETS, Api
from scripts.observe.source import may_have_files
from scripts.observe.view import View
from scripts.plan.units import time_text
from scripts.why.reasons import Kind, Reason

URL, WAIT = "DPO_WEBHOOK_URL", "DPO_WEBHOOK_WAIT"
"""Variables of the launcher with the reference to the URL, and the seconds before a message."""


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """`monitoring.webhook` of an installed run."""

    secret: str
    key: str
    wait: float
    """Seconds."""


def webhook_of(view: View) -> Webhook | None:
    """Return the webhook of a run; None without one."""
    env = view.variables
    found = ((env.get(URL) or {}).get("valueFrom") or {}).get("secretKeyRef") or {}
    wait = str((env.get(WAIT) or {}).get("value") or "")
    if not found or not wait.isdecimal():
        return None
    return Webhook(secret=str(found["name"]), key=str(found["key"]), wait=float(wait))


def queue_notice(view: View, first: Reason, *, waited: float, limit: float) -> Notice | None:
    """Return the message about a run that has no pods; None if there is none to send.

    ``waited`` and ``limit`` are seconds without a pod.
    """
    if view.ranks:
        return None
    see = f"megatron-dpo why {view.run} -n {view.namespace}"
    if first.kind is Kind.FAILED and not may_have_files(view):
        text = f"Run {view.run} cannot start: {first.sentence} {see}"
        return Notice(run=view.run, reason="Failed", attempt=0, text=text)
    if first.kind is Kind.WAITING and waited >= limit:
        text = f"Run {view.run} waits without pods for {time_text(waited)}: {first.sentence} {see}"
        return Notice(run=view.run, reason="Waiting", attempt=0, text=text)
    return None


@dataclass(kw_only=True)
class QueueMessages:
    """Sends each message once per time without pods."""

    api: Api
    note: Callable[[str], None]
    """Prints why a message is not sent."""
    _since: float | None = None
    _sent: set[str] = field(default_factory=set)
    _sending: list[threading.Thread] = field(default_factory=list)

    def look(self, view: View, first: Reason) -> None:
        """Send the message of a state, if it is due."""
        if view.ranks:
            self._since, self._sent = None, set()
        elif self._since is None:
            self._since = time.monotonic()
        found = webhook_of(view)
        if found is None or self._since is None:
            return
        waited = time.monotonic() - self._since
        notice = queue_notice(view, first, waited=waited, limit=found.wait)
        if notice is None or notice.reason in self._sent:
            return
        self._sent.add(notice.reason)
        if url := self._url(found):
            self._send(url, notice)

    def _send(self, url: str, notice: Notice) -> None:
        request = notify.webhook(url, notice)
        if request is not None:
            thread = threading.Thread(
                target=notify.send, args=("webhook", request, None), daemon=True
            )
            thread.start()
            self._sending.append(thread)

    def _url(self, found: Webhook) -> str:
        answer = self.api.get(SECRETS.path(self.api.namespace, found.secret))
        if not answer.found:
            why = "you lack the permission: get secrets" if answer.status == 403 else answer.why
            self.note(f"no message to the webhook, as its URL was not read: {why}")
            return ""
        try:
            return base64.b64decode((answer.content.get("data") or {})[found.key]).decode().strip()
        except (KeyError, ValueError, binascii.Error):
            self.note(f"no message to the webhook: Secret {found.secret} has no key {found.key}")
            return ""

    def close(self) -> None:
        """Wait for messages on their way, for as long as a run's end does."""
        stop = time.monotonic() + notify.END_SECONDS
        for thread in self._sending:
            thread.join(max(0.0, stop - time.monotonic()))
