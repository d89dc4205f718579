"""Webhook and events: content and time of messages; no answer of the other side stops a run."""

import json
import logging
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest

from launchers.config.settings import Settings, from_env
from launchers.exits import Exit, LaunchError
from launchers.progress import notify
from launchers.progress.notify import notice, notifying
from launchers.progress.progress import Progress, reporting
from launchers.system.retry import RetryPolicy
from tests.launchers.loopback import Silent
from tests.launchers.waiting import eventually

SECRET = "T0000-B0000-canary-of-the-url"
QUICK = RetryPolicy(limit=20.0, first=0.05, longest=0.1)


class Receiver(HTTPServer):
    """Answers with the given statuses, then 200; keeps bodies and headers."""

    def __init__(self, statuses: tuple[int, ...] = ()) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = list(statuses)
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.tokens: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/{SECRET}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing for a client that gave up."""


class _Handler(Silent):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        if status == 200:
            self.server.bodies.append(json.loads(body))
            self.server.paths.append(self.path)
            self.server.tokens.append(self.headers["Authorization"])
        self.send_response(status)
        self.end_headers()


@contextmanager
def receiving(server: Receiver) -> Iterator[Receiver]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "RETRIES", QUICK)
    monkeypatch.setattr(notify, "POLL_SECONDS", 0.05)


def settings(folder: Path, **changes: str) -> Settings:
    given = {"DPO_RUN": "dpo-42", "DPO_WORKSPACE": str(folder), "DPO_NODES": "1"}
    return from_env({**given, "DPO_GPUS_PER_NODE": "0", **changes})


def progress_of(known: Settings) -> Progress:
    return Progress(path=known.launch.work.progress, run=known.launch.run, digest="d")


def run(known: Settings, error: BaseException | None = None) -> None:
    """Let a run go through its states, and end with an error if one is given."""
    progress = progress_of(known)
    with notifying(known.launch, known.reports), reporting(progress):
        progress.begin("train")
        progress.mark("gang")
        progress.begin_training(3)
        progress.training = {"step": 20, "total": 100}
        if error is not None:
            raise error
        progress.end("done")
        progress.finish("succeeded")


def test_the_end_is_posted_as_slack_takes_it(tmp_path: Path) -> None:
    with receiving(Receiver()) as server:
        run(settings(tmp_path, DPO_WEBHOOK_URL=server.url))
    [body] = server.bodies
    assert body["text"] == "Run dpo-42 has ended; its checkpoint is in export/"
    assert (body["run"], body["reason"], body["attempt"]) == ("dpo-42", "Succeeded", 3)
    assert (body["step"], body["total"]) == (20, 100)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(Exit.CONFIG, "Failed"), (Exit.PEER, "Failed"), (Exit.PREEMPTED, "Interrupted")],
)
def test_a_failure_is_posted_with_its_cause(tmp_path: Path, code: Exit, reason: str) -> None:
    with receiving(Receiver()) as server, pytest.raises(LaunchError):
        error = LaunchError(code, "a wrong flag", "correct it", id="x")
        run(settings(tmp_path, DPO_WEBHOOK_URL=server.url), error)
    [body] = server.bodies
    assert body["reason"] == reason and "a wrong flag" in body["text"]
    assert ("no restart follows" in body["text"]) == (code == Exit.CONFIG)


def test_an_error_of_the_server_is_retried(tmp_path: Path) -> None:
    with receiving(Receiver(statuses=(500, 503, 429))) as server:
        run(settings(tmp_path, DPO_WEBHOOK_URL=server.url))
    assert [each["reason"] for each in server.bodies] == ["Succeeded"]


def test_a_refusal_is_not_retried_and_the_log_never_has_the_url(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving(Receiver(statuses=(403, 403))) as server, caplog.at_level(logging.INFO):
        run(settings(tmp_path, DPO_WEBHOOK_URL=server.url))
    assert server.statuses == [403] and server.bodies == []
    assert 'webhook not sent cause="HTTP 403"' in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:1/{SECRET}",
        f"http://[{SECRET}/",
        f"http://host name/{SECRET}",
        f"ftp://127.0.0.1/{SECRET}",
        f"file:///{SECRET}",
        SECRET,
    ],
)
def test_an_unusable_url_is_never_logged(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "RETRIES", RetryPolicy(limit=0.2, first=0.05))
    with caplog.at_level(logging.INFO):
        run(settings(tmp_path, DPO_WEBHOOK_URL=url))
    assert "not sent" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in repr(settings(tmp_path, DPO_WEBHOOK_URL=url))


def test_a_server_that_hangs_delays_the_end_by_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "END_SECONDS", 0.5)
    monkeypatch.setattr(notify, "RETRIES", RetryPolicy(limit=0.1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}"
        started = time.monotonic()
        run(settings(tmp_path, DPO_WEBHOOK_URL=url))
    assert time.monotonic() - started < 4


def test_bad_tls_is_not_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = Receiver()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with receiving(server), caplog.at_level(logging.INFO):
        run(settings(tmp_path, DPO_WEBHOOK_URL=server.url.replace("http:", "https:")))
    assert server.bodies == []
    assert "webhook not sent cause=SSLCertVerificationError" in caplog.text
    retried = [each for each in caplog.messages if each.startswith("retry")]
    assert not any("SSL" in each for each in retried)
    assert SECRET not in caplog.text


def test_a_late_gang_is_reported_once(tmp_path: Path) -> None:
    with receiving(Receiver()) as server:
        known = settings(tmp_path, DPO_WEBHOOK_WAIT="1", DPO_WEBHOOK_URL=server.url)
        with notifying(known.launch, known.reports):
            progress_of(known).begin("train")
            assert eventually(lambda: server.bodies, 60)
            time.sleep(0.5)
        [body] = server.bodies
    assert body["reason"] == "Waiting" and "megatron-dpo why dpo-42" in body["text"]


def test_the_state_of_an_earlier_attempt_is_not_sent(tmp_path: Path) -> None:
    with receiving(Receiver()) as server:
        known = settings(tmp_path, DPO_WEBHOOK_URL=server.url)
        progress_of(known).finish("failed", "old", 1)
        with notifying(known.launch, known.reports):
            time.sleep(0.3)
    assert server.bodies == []


def test_after_the_loss_of_rank_0_the_next_attempt_says_so_and_ends_once(tmp_path: Path) -> None:
    """The launcher of the lost node has left progress.json as of a run that trains."""
    with receiving(Receiver()) as server:
        known = settings(tmp_path, DPO_WEBHOOK_URL=server.url)
        lost = progress_of(known)
        lost.begin("train")
        lost.begin_training(2)
        progress = progress_of(known)
        with notifying(known.launch, known.reports), reporting(progress):
            progress.begin("train")
            progress.begin_training(3)
            progress.mark("gang")
            progress.write()
            assert eventually(lambda: server.bodies, 60)
            progress.restart(4, failed=time.time(), why="rank 1 ended")
            time.sleep(0.3)  # several looks: a restart in the same pods is not sent
            progress.end("done")
            progress.finish("succeeded")
    said = [(each["reason"], each["attempt"]) for each in server.bodies]
    assert said == [("Training", 3), ("Succeeded", 4)]
    assert server.bodies[0]["text"].endswith("attempt 3; rank 0 of the attempt before was lost")


def test_an_attempt_after_one_that_sent_its_end_sends_only_its_own(tmp_path: Path) -> None:
    with receiving(Receiver()) as server:
        known = settings(tmp_path, DPO_WEBHOOK_URL=server.url)
        with pytest.raises(LaunchError):
            run(known, LaunchError(Exit.PREEMPTED, "SIGTERM", "it resumes", id="x"))
        run(known)
    assert [each["reason"] for each in server.bodies] == ["Interrupted", "Succeeded"]


def test_events_are_written_on_the_jobset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "namespace").write_text("team-a\n")
    (tmp_path / "token").write_text("abc\n")
    given = notice({"state": "failed", "code": 93, "why": "w" * 2000}, "r", waited=0, limit=1)
    assert given is not None
    monkeypatch.setattr(ssl, "create_default_context", lambda cafile: None)
    with receiving(Receiver(statuses=(500,))) as server:
        api = f"http://127.0.0.1:{server.server_port}"
        request, context = notify.event(given, "uid-1", account=tmp_path, api=api)
        assert request is not None
        notify.send("event", request, context)
    [body] = server.bodies
    assert server.paths == ["/api/v1/namespaces/team-a/events"]
    assert server.tokens == ["Bearer abc"]
    place = {"namespace": "team-a", "name": "r", "uid": "uid-1"}
    kind = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    assert body["involvedObject"] == kind | place
    assert (body["reason"], body["type"]) == ("Failed", "Warning")
    assert len(body["message"]) == 1024


def test_without_an_account_the_run_continues(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify.event, "__kwdefaults__", {"account": tmp_path, "api": "http://x"})
    with caplog.at_level(logging.INFO):
        run(settings(tmp_path, DPO_EVENTS="1"))
    assert "event not sent cause=FileNotFoundError" in caplog.text


TRAINS = {"state": "running", "stage": "train"}


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        ({"state": "running", "stage": "download"}, None),
        (TRAINS, None),
        (TRAINS | {"phases": {"gang": 1.0}}, "Training"),
        (TRAINS | {"restarts_in_place": [{"why": "rank 1: NaN"}]}, "Training"),
        ({"state": "failed", "code": 143, "why": "SIGTERM"}, "Interrupted"),
        ({"state": "failed", "code": 1}, "Failed"),
        ({"state": "succeeded", "training": None}, "Succeeded"),
        ({}, None),
    ],
)
def test_the_message_of_each_state(progress: dict[str, Any], reason: str | None) -> None:
    found = notice(progress, "r", waited=5.0, limit=60.0)
    assert (found and (found.reason, found.attempt)) == (reason and (reason, 0))
