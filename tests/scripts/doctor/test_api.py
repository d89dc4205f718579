"""The edge against a real HTTP server: refusals, warnings, cut lines, and no secret value kept."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.doctor.api import Api, connect
from scripts.doctor.gather import gather
from scripts.problem import Problem, UnknownState
from tests.launchers.loopback import Silent, http_server
from tests.scripts.doctor.healthy import release
from tests.scripts.kubeconfig import connected, write

HIDDEN = base64.b64encode(b"hunter2-very-secret").decode("ascii")
NOT_WHOLE = {
    "page": b"<html>login",
    "cut": b'{"items": [{}',
    "part": b'{"items": [], "metadata": {"continue": "x"}}',
    "other": b'{"items": [null]}',
    "null": b'{"items": null}',
}
SAID = {
    "": b"404 page not found",
    "page": b"<html>",
    "status": b'{"kind": "Status", "message": "x not found"}',
    "backend": b"default backend - 404",
    "route": b'{"message": "no Route matched with those values"}',
}
SECRET = {"metadata": {"name": "preferences-git"}, "data": {"token": HIDDEN, "empty": ""}}


class Handler(Silent):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/proxy":
            return self.say(502, b"<html>bad gateway</html>")
        if path.startswith("/status_"):
            return self.say(int(path[8:11]), SAID[path[12:]])
        if path.startswith("/api/v1/no_list_"):
            return self.say(200, NOT_WHOLE.get(path[16:], b""))
        if path == "/long":
            assert self.headers["Accept-Encoding"] == "gzip"
            return self.say(
                200, gzip.compress(b'{"items": [{"metadata": {}}]}'), Content_Encoding="gzip"
            )
        if path.endswith("/secrets/preferences-git"):
            return self.say(200, json.dumps(SECRET).encode())
        if path in ("/version", "/apis"):
            return self.say(200, b'{"gitVersion": "v1.34.0", "groups": []}')
        return self.say(403, b'{"kind": "Status", "message": "nodes is forbidden"}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"path": self.path, "spec": {}}).encode()
        self.say(201, body, Warning='299 - "would \\"x\\""')


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with http_server(Handler) as url:
        yield connected(write(tmp_path, url), monkeypatch)


def test_namespace_and_context_are_the_kubeconfig_s(api: Api) -> None:
    assert (api.context, api.namespace) == ("here", "team")
    other = connect("other", None)
    assert (other.context, other.namespace) == ("other", "default")
    assert connect("other", "mine").namespace == "mine"
    with pytest.raises(Problem, match="no context typo; the kubeconfig has here, other"):
        connect("typo", None)


def test_a_refusal_is_an_answer(api: Api) -> None:
    refused = api.get("/api/v1/nodes")
    assert (refused.status, refused.why) == (403, "nodes is forbidden")
    broken = api.get("/proxy")
    assert (broken.status, broken.why) == (502, "<html>bad gateway</html>")


@pytest.mark.parametrize(
    ("what", "lost", "absent"),
    [
        ("404", False, True),
        ("404_status", False, True),
        ("404_page", True, False),  # of a proxy, as the next ones
        ("404_backend", True, False),
        ("404_route", True, False),
        ("403_page", True, False),
        ("403_status", False, False),
        ("302_page", True, False),
        ("408", True, False),
        ("410", True, False),  # a list that has expired
        ("409", False, False),
    ],
)
def test_what_is_not_the_api_servers_no_is_no_absence(
    api: Api, what: str, lost: bool, absent: bool
) -> None:
    answer = api.get(f"/status_{what}")
    assert (answer.lost, answer.absent) == (lost, absent)


@pytest.mark.parametrize("what", [*NOT_WHOLE, "empty"])
def test_an_answer_that_is_not_whole_is_none_and_no_empty_list(api: Api, what: str) -> None:
    answer = api.get(f"/api/v1/no_list_{what}")
    assert answer.lost and not answer.found


def test_a_long_answer_is_compressed(api: Api) -> None:
    """A queue of 1,000 Workloads is 6 MB, and a thirtieth of that compressed."""
    answer = api.get("/long")
    assert (answer.status, answer.content) == (200, {"items": [{"metadata": {}}]})


def test_a_dry_run_is_dry_and_its_warnings_are_kept(api: Api) -> None:
    answer = api.create("/api/v1/namespaces/team/pods", {"kind": "Pod"})
    assert "dryRun=All" in answer.content["path"] and answer.warnings == ['would "x"']


def test_nobody_there_is_an_answer_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = connected(write(tmp_path, "http://127.0.0.1:9"), monkeypatch).get("/version")
    assert answer.status == 0 and "refused" in answer.why


def test_no_value_of_a_secret_gets_past_the_edge(api: Api) -> None:
    read = gather(api, release())
    kept = read.objects["secrets", "preferences-git"].content["data"]
    assert kept == {"token": "filled", "empty": ""} and HIDDEN not in repr(read)


@pytest.mark.parametrize(
    ("sets", "are_needed"),
    [([], False), (["monitoring.events=true"], True), (["restarts.agentImage=a.com/b:v1"], True)],
)
def test_the_right_to_create_roles_is_asked_for_where_the_run_has_one(
    api: Api, sets: list[str], are_needed: bool
) -> None:
    asked = {f"{each}" for each in gather(api, release(*sets)).permissions}
    for plural in ("roles", "rolebindings"):
        assert (f"create {plural}.rbac.authorization.k8s.io" in asked) == are_needed


@pytest.mark.parametrize("content", [b"\xff", b"a: [", b"- a", b"text", None])
def test_a_file_that_is_no_kubeconfig_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    file, why = tmp_path / "kubeconfig", "the file of KUBECONFIG is not a kubeconfig: "
    if content is None:
        file.mkdir()
        with pytest.raises(UnknownState, match="is not a kubeconfig: .*Is a directory"):
            connected(file, monkeypatch)
    else:
        file.write_bytes(content)
        with pytest.raises(Problem, match=why):
            connected(file, monkeypatch)


def exec_of(command: str) -> dict[str, object]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command}}


EXPIRED = "e30.eyJleHAiOiAxMDB9.c2ln"
OIDC = {"idp-issuer-url": "http://127.0.0.1:9", "id-token": EXPIRED, "client-id": "x"}
OIDC |= {"client-secret": "y", "refresh-token": "r"}
LOGINS: dict[str, tuple[dict[str, object], str]] = {
    "no-program": (exec_of("/none/login"), "the login of context here failed: .*/none/login"),
    "program-fails": (exec_of("false"), "the login of context here failed: .* returned 1"),
    "no-issuer": (
        {"auth-provider": {"name": "oidc", "config": OIDC}},
        "the kubeconfig or its login does not work: .*Connection refused",
    ),
}


@pytest.mark.parametrize("login", LOGINS)
def test_a_login_that_fails_is_named_and_no_request_is_sent_without_it(
    login: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    user, why = LOGINS[login]
    file = write(tmp_path, "http://127.0.0.1:9")
    config = yaml.safe_load(file.read_text())
    config["users"] = [{"name": "u", "user": user}]
    file.write_text(yaml.safe_dump(config))
    with pytest.raises(UnknownState, match=why):
        connected(file, monkeypatch)
    assert capsys.readouterr().err == ""
