"""The run's state for Prometheus: the text, and the server that must never end a run."""

import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launchers.preflight.gang_probes import free_port
from launchers.progress import prometheus
from launchers.progress.exporter import exporting

EVALUATION = {"step": 25, "loss": 0.2, "accuracy": 0.9, "margin": 3.0}
DOCUMENT = {
    "run": 'dpo"42\\',
    "state": "running",
    "code": 0,
    "started": 1.5e9,
    "updated": 1.5e9 + 60,
    "stages": {"clone": {"state": "done", "seconds": 1.5}, "train": {"seconds": None}},
    "training": {
        **dict.fromkeys(prometheus.GAUGES, 0.5),
        "held_out": dict.fromkeys(("first", "last", "best"), EVALUATION),
    },
}
LINE = re.compile(
    r"# (?:HELP|TYPE) dpo_\w+ .+"
    r"|dpo_[a-z_]+\{(?:\w+=\"(?:[^\"\\\n]|\\[\"\\n])*\",?)+\} -?[\d.]+(?:e[+-]?\d+)?"
)


@contextmanager
def serving(folder: Path, document: object = None) -> Iterator[str]:
    path, port = folder / "progress.json", free_port()
    if document is not None:
        path.write_text(document if isinstance(document, str) else json.dumps(document))
    with exporting(path, port):
        yield f"http://127.0.0.1:{port}"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.headers["Content-Type"] == prometheus.CONTENT_TYPE
        return str(answer.read().decode())


def test_each_line_has_the_form_of_the_format() -> None:
    lines = prometheus.text(DOCUMENT).splitlines()
    assert len(lines) > 40
    for line in lines:
        assert LINE.fullmatch(line), line
    typed = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(typed) == len(set(typed))


def test_a_scrape_shows_the_state_of_now(tmp_path: Path) -> None:
    with serving(tmp_path, DOCUMENT) as url:
        assert get(f"{url}/metrics") == prometheus.text(DOCUMENT)
        (tmp_path / "progress.json").write_text(json.dumps({"run": "r", "training": {"step": 7}}))
        assert 'dpo_training_step{run="r"} 7\n' in get(f"{url}/metrics?x=1")


@pytest.mark.parametrize("document", [None, "", '{"torn', [1], {"training": None, "stages": 3}])
def test_a_state_that_cannot_be_read_is_an_empty_scrape(tmp_path: Path, document: object) -> None:
    with serving(tmp_path, document) as url:
        assert get(f"{url}/metrics") == ""


def test_other_paths_and_methods_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with serving(tmp_path, DOCUMENT) as url:
        for path in ("/", "/progress.json", "/../secret", "/metrics/secret"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                get(url + path)
        post = urllib.request.Request(f"{url}/metrics", data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(post, timeout=30)


def test_a_port_that_is_taken_does_not_end_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(tmp_path, DOCUMENT) as url:
        with exporting(tmp_path / "progress.json", int(url.rsplit(":", 1)[1])):
            pass
        assert "metrics not served" in caplog.text
        get(f"{url}/metrics")


def test_a_client_that_sends_nothing_does_not_delay_the_end(tmp_path: Path) -> None:
    with serving(tmp_path, DOCUMENT) as url:
        address = ("127.0.0.1", int(url.rsplit(":", 1)[1]))
        slow = socket.create_connection(address)
        slow.sendall(b"GET /met")
        time.sleep(0.5)  # the server reads the rest of the request now
        began = time.monotonic()
    assert time.monotonic() - began < 4
    slow.close()


def test_the_port_is_free_after_the_end(tmp_path: Path) -> None:
    with serving(tmp_path, DOCUMENT) as url:
        get(f"{url}/metrics")
    with socket.create_server(("127.0.0.1", int(url.rsplit(":", 1)[1]))):
        pass
