import io
import json

from rich.console import Console

from scripts.doctor.findings import Report, as_json, fail, ok, show, warn

FINDINGS = [
    ok("queue-ok", "queue gpu", "takes runs"),
    warn("image-tag", "image", "tag [1] moves", "pin it"),
    fail("claim-missing", "claim x", "does not exist " * 20, "make it"),
]
REPORT = Report(context="prod", namespace="team", run="dpo", findings=FINDINGS)


def test_a_finding_is_one_line_however_long() -> None:
    stream = io.StringIO()
    show(REPORT, Console(file=stream, width=40))
    first, second, third, last = stream.getvalue().splitlines()
    assert (first, second) == ("ok   queue gpu: takes runs", "warn image: tag [1] moves; pin it")
    assert third.endswith("; make it")
    assert last == "1 ok, 1 warn, 1 fail: run dpo in namespace team of prod"


def test_the_json_keeps_its_format() -> None:
    content = json.loads(as_json(REPORT))
    assert list(content) == ["schema", "context", "namespace", "run", "counts", "findings"]
    assert content["counts"] == {"ok": 1, "warn": 1, "fail": 1}
    about = {"subject": "image", "found": "tag [1] moves", "remedy": "pin it", "id": "image-tag"}
    assert content["findings"][1] == {"level": "warn", **about}


def test_only_a_failed_line_fails_the_command() -> None:
    calm = Report(context="", namespace="", run="", findings=FINDINGS[:2])
    assert (REPORT.exit_code, calm.exit_code) == (1, 0)
