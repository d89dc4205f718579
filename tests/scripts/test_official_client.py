"""The official client: what no verb uses is imported only when it is used, and works then."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.helm import ROOT
from tests.launchers.loopback import Silent, http_server
from tests.scripts.kubeconfig import write

HEAVY = (
    "jsonschema",
    "kubernetes_validate",
    "kubernetes.dynamic",
    "kubernetes.informer",
    "oauthlib",
    "requests_oauthlib",
    "requests",
    "websocket",
)
"""Modules that take as long to import as all others together."""
CONNECT = """
from scripts.doctor.api import connect
api = connect(None, None)
"""


def printed(code: str, config: Path) -> str:
    env = os.environ | {"KUBECONFIG": str(config), "OAUTHLIB_INSECURE_TRANSPORT": "1"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("verb", ["status", "why"])
def test_a_verb_that_reads_the_api_imports_no_heavy_module(verb: str, tmp_path: Path) -> None:
    code = f"""
import sys
import scripts.{verb}.command
{CONNECT}
assert api.get("/apis").status == 0
print(*sorted(set({HEAVY}) & set(sys.modules)))
"""
    assert printed(code, write(tmp_path, "http://127.0.0.1:9")) == ""


def test_the_other_modules_are_found_when_they_are_used(tmp_path: Path) -> None:
    code = f"""
{CONNECT}
import kubernetes
import kubernetes.client
print(kubernetes.watch.Watch.__name__, kubernetes.client.CoreV1Api.__name__)
print(hasattr(kubernetes, "nothing"))
import requests_oauthlib
print(requests_oauthlib.OAuth2Session.__module__)
"""
    found = printed(code, write(tmp_path, "http://127.0.0.1:9")).splitlines()
    assert found == ["Watch CoreV1Api", "False", "requests_oauthlib.oauth2_session"]


def token_until(when: float) -> str:
    """A token of OpenID Connect; nothing checks its signature here."""
    claims = json.dumps({"exp": int(when)}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


class Issuer(Silent):
    """An issuer of tokens, and the API server that is asked with one."""

    asked: list[str]
    fresh: str

    def do_GET(self) -> None:
        if self.path.endswith("/openid-configuration"):
            host = f"http://{self.headers['Host']}"
            return self._say({"token_endpoint": f"{host}/token"})
        self.asked.append(self.headers["Authorization"])
        return self._say({"groups": []})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        made = {"access_token": "x", "token_type": "bearer", "refresh_token": "second"}
        self._say({**made, "id_token": self.fresh})

    def _say(self, content: dict[str, object]) -> None:
        self.say(200, json.dumps(content).encode(), Content_Type="application/json")


@pytest.fixture
def issuer() -> Iterator[str]:
    Issuer.asked, Issuer.fresh = [], token_until(time.time() + 3600)
    with http_server(Issuer) as url:
        yield url


def test_an_expired_token_of_openid_connect_is_replaced(issuer: str, tmp_path: Path) -> None:
    """The only use of the OAuth modules."""
    file = write(tmp_path, issuer)
    config = yaml.safe_load(file.read_text())
    own = {"idp-issuer-url": issuer, "client-id": "dpo", "client-secret": "s"}
    tokens = {"id-token": token_until(time.time() - 60), "refresh-token": "first"}
    for each in config["users"]:
        each["user"] = {"auth-provider": {"name": "oidc", "config": own | tokens}}
    file.write_text(yaml.safe_dump(config))
    assert printed(f"{CONNECT}\nprint(api.get('/apis').status)", file) == "200"
    assert Issuer.asked == [f"Bearer {Issuer.fresh}"]
