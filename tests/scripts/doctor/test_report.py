import io
import json

from rich.console import Console

from scripts.doctor.findings import Report, as_json, fail, ok, show, warn

REPORT = Report(
    context="prod",
    namespace="team",
    run="dpo",
    findings=[
        ok("queue-ok", "queue gpu", "takes runs"),
        warn("image-tag", "image", "tag [1] moves", "pin it"),
        fail("claim-missing", "claim x", "does not exist " * 20, "make it"),
    ],
)


def test_a_finding_is_one_line_however_long() -> None:
    stream = io.StringIO()
    show(REPORT, Console(file=stream, width=40))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "ok   queue gpu: takes runs"
    assert lines[1] == "warn image: tag [1] moves; pin it"
    assert lines[2].endswith("; make it")
    assert lines[3] == "1 ok, 1 warn, 1 fail: run dpo in namespace team of prod"


def test_the_json_keeps_its_format() -> None:
    content = json.loads(as_json(REPORT))
    assert list(content) == ["schema", "context", "namespace", "run", "counts", "findings"]
    assert content["counts"] == {"ok": 1, "warn": 1, "fail": 1}
    assert content["findings"][1] == {
        "level": "warn",
        "subject": "image",
        "found": "tag [1] moves",
        "remedy": "pin it",
        "id": "image-tag",
    }


def test_only_a_failed_line_fails_the_command() -> None:
    assert REPORT.exit_code == 1
    calm = Report(context="", namespace="", run="", findings=REPORT.findings[:2])
    assert calm.exit_code == 0
