"""The Kubernetes API of a kubeconfig's context: resource kinds, requests and answers."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import yaml
from urllib3.exceptions import HTTPError

from scripts import official_client
from scripts.manifest import KUEUE
from scripts.problem import Problem, UnknownState

Object = Mapping[str, Any]
JOBSET = "jobset.x-k8s.io"
TIMEOUT_SECONDS = (5, 20)
"""To connect and to read; listing a thousand nodes takes seconds."""
FOLLOW_TIMEOUT_SECONDS = (5, 60)
"""The same for a log that is followed; a reader of one that is silent for longer connects again."""
BLOCK_BYTES = 64 * 1024
CONNECTIONS = 32
"""Connections that are kept; the client warns of each that it would close."""
DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
_PLACE = re.compile(r"/apis?/(?:[^/]+/)?v\w+(?:/namespaces/[^/]+(?=/))?/\w+(?:/(?P<name>[^/]+))?")
_NO_PATH = re.compile("404 page not found")
"""What the API server says of a path that it does not serve; of an object it says a Status."""
OpenApiException: type[Exception] = official_client.part("client.exceptions").OpenApiException


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A resource kind of the API."""

    plural: str
    group: str = ""
    """API group; empty: core."""
    version: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of one object, or of the collection; without a namespace of them all.

        >>> PODS.path("team"), NODES.path("team", "n1"), PODS.path("")
        ('/api/v1/namespaces/team/pods', '/api/v1/nodes/n1', '/api/v1/pods')
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")


def _kueue(plural: str, *, namespaced: bool = False) -> Kind:
    return Kind(plural=plural, group=KUEUE, version="v1beta2", namespaced=namespaced)


JOBSETS = Kind(plural="jobsets", group=JOBSET, version="v1alpha2")
JOBS = Kind(plural="jobs", group="batch")
LOCAL_QUEUES = _kueue("localqueues", namespaced=True)
WORKLOADS = _kueue("workloads", namespaced=True)
CLUSTER_QUEUES = _kueue("clusterqueues")
FLAVORS = _kueue("resourceflavors")
TOPOLOGIES = _kueue("topologies")
COHORTS = _kueue("cohorts")
PRIORITIES = _kueue("workloadpriorityclasses")
NAMESPACES = Kind(plural="namespaces", namespaced=False)
NODES = Kind(plural="nodes", namespaced=False)
PODS = Kind(plural="pods")
EVENTS = Kind(plural="events")
SECRETS = Kind(plural="secrets")
CONFIG_MAPS = Kind(plural="configmaps")
SERVICES = Kind(plural="services")
ACCOUNTS = Kind(plural="serviceaccounts")
ROLES = Kind(plural="roles", group="rbac.authorization.k8s.io")
ROLE_BINDINGS = Kind(plural="rolebindings", group="rbac.authorization.k8s.io")
POLICIES = Kind(plural="networkpolicies", group="networking.k8s.io")
CLAIMS = Kind(plural="persistentvolumeclaims")
QUOTAS = Kind(plural="resourcequotas")
CLASSES = Kind(plural="storageclasses", group="storage.k8s.io", namespaced=False)
DEVICE_CLASSES = Kind(plural="deviceclasses", group="resource.k8s.io", namespaced=False)
DRIVERS = Kind(plural="csidrivers", group="storage.k8s.io", namespaced=False)
DEPLOYMENTS = Kind(plural="deployments", group="apps", namespaced=False)
"""In all namespaces: the controllers may be installed in any."""
REVIEWS = Kind(plural="selfsubjectaccessreviews", group="authorization.k8s.io", namespaced=False)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The API server's answer to one request; a refusal is an answer too."""

    status: int
    """HTTP status; 0 if no server answered."""
    content: Object = field(default_factory=dict)
    """The object, the list, or the Status with the reason of a refusal."""
    warnings: Sequence[str] = ()
    """Texts of the answer's Warning headers."""
    time: float | None = None
    """Unix time by the server's clock, of the Date header."""

    @property
    def found(self) -> bool:
        """Return whether the object exists, or was accepted."""
        return 200 <= self.status < 300

    @property
    def absent(self) -> bool:
        """Return whether the object is known not to exist."""
        return self.status == 404

    @property
    def unknown(self) -> bool:
        """Return whether it does not say if the object exists: a refusal, or no answer."""
        return not (self.found or self.absent)

    @property
    def lost(self) -> bool:
        """True when nothing is known: no answer, a proxy's, or a server that may recover."""
        return not (self.found or 400 <= self.status < 500) or self.status in (408, 410, 425, 429)

    @property
    def items(self) -> list[Object]:
        """Return the objects of a list; always the same one, by which its readers keep results."""
        found: list[Object] = self.content.get("items") or []
        return found

    @property
    def cause(self) -> str:
        """Return the reason of a refusal or of a lost connection, on one line."""
        text = str(self.content.get("message") or f"the API server answered {self.status}")
        return " ".join(text.split())

    @property
    def why(self) -> str:
        """Return the cause for a sentence that does not say whether a server answered."""
        return self.cause if self.status else f"no answer ({self.cause})"

    def item(self, name: str) -> Answer:
        """Return one object of a list; the list's own refusal if it was refused.

        >>> Answer(status=200, content={"items": []}).item("x").absent
        True
        """
        if not self.found:
            return self
        for item in self.items:
            if item["metadata"]["name"] == name:
                return Answer(status=200, content=item)
        return Answer(status=404, content={"message": f"{name} does not exist"})


NO_ANSWER = Answer(status=0)


class LostAnswer(Problem):
    """The server did not answer; it may do so later."""


@dataclass(frozen=True, kw_only=True)
class Api:
    """The API server, with the identity of a kubeconfig's context."""

    client: Any
    context: str
    namespace: str
    chosen: frozenset[str] = frozenset()
    """`context`, `namespace`: those that are not what the kubeconfig selects by itself."""
    unselected: str = ""
    """Why no cluster is selected; then no request is sent. Empty if one is."""

    def get(self, path: str, **query: str) -> Answer:
        """Read an object or a list."""
        return self._request("GET", path, query)

    def create(self, path: str, content: Object, *, dry: bool = True) -> Answer:
        """Create an object; by default as a server-side dry run, which stores nothing."""
        return self._request("POST", path, DRY_RUN if dry else {}, content)

    def patch(self, path: str, content: Object) -> Answer:
        """Change an object by a JSON merge patch."""
        return self._request("PATCH", path, {}, content)

    def delete(self, path: str, content: Object | None = None, **query: str) -> Answer:
        """Delete an object; ``content`` are DeleteOptions."""
        return self._request("DELETE", path, query, content)

    def text(self, path: str, **query: str) -> str | None:
        """Read a text, such as a container's log; None if it was refused."""
        try:
            response = self._send("GET", path, query)
            content: bytes = response.read()
        except (HTTPError, OSError, OpenApiException):
            return None
        return content.decode(errors="replace") if response.status == 200 else None

    def follow(self, path: str, **query: str) -> Iterator[bytes]:
        """Read a text in blocks as it is written, such as the log of a running container.

        The first block is empty: the server has accepted the request.

        Raises:
            LostAnswer: the connection is lost, or silent for a minute.
            Problem: the server refuses it.
        """
        try:
            response = self._send("GET", path, query, timeout=FOLLOW_TIMEOUT_SECONDS)
            if response.status == 200:
                yield b""
                yield from response.response.stream(BLOCK_BYTES)
                return
            refusal = Answer(status=response.status, content=_content(response.read()))
        except (HTTPError, OSError, OpenApiException) as error:
            raise LostAnswer(_cause(error)) from None
        raise (LostAnswer if refusal.lost else Problem)(refusal.why)

    def open_exec(self, pod: str, container: str, command: Sequence[str]) -> Any:
        """Start a command in a container; return the connection, a `WSClient` that reads bytes.

        The generated `CoreV1Api` does the same, but importing its models takes a second.

        Raises:
            OpenApiException: it is refused.
        """
        words = [("command", word) for word in command]
        query = [*words, ("container", container), ("stdout", "true"), ("stderr", "true")]
        method, url, headers, _, _ = self.client.param_serialize(
            "GET",
            PODS.path(self.namespace, f"{pod}/exec"),
            query_params=query,
            header_params={"Accept": "*/*"},
            auth_settings=["BearerToken"],
        )
        call = official_client.part("stream.ws_client").websocket_call
        options = {"binary": True, "capture_all": False, "_preload_content": False}
        return call(self.client.configuration, method, url, headers=headers, **options)

    def _request(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None = None
    ) -> Answer:
        if self.unselected:
            return Answer(status=0, content={"message": self.unselected})
        try:
            response = self._send(method, path, query, body)
            is_read = method == "GET" and response.status < 300
            content = _content(response.read(), path if is_read else "")
        except (HTTPError, OSError, OpenApiException) as error:
            return Answer(status=0, content={"message": _cause(error)})
        is_text, said = content.keys() == {"message"}, str(content.get("message"))
        is_page = is_text and response.status < 500 and said.lstrip()[:1] == "<"
        is_others = response.status == 404 and not _NO_PATH.match(said) and not _is_status(content)
        is_cut = is_text and 200 <= response.status < 300
        return Answer(
            status=0 if is_page or is_others or is_cut else response.status,
            content=content,
            warnings=[_warning_text(each) for each in response.headers.getlist("Warning")],
            time=_unix_time(response.headers.get("Date")),
        )

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Object | None = None,
        timeout: tuple[float, float] | None = None,
    ) -> Any:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": kind}
        if method == "GET" and timeout is None:
            headers["Accept-Encoding"] = "gzip"
        method, url, headers, body, _ = self.client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        limit = timeout or TIMEOUT_SECONDS
        return self.client.call_api(method, url, headers, body, _request_timeout=limit)


def connect(context: str | None, namespace: str | None) -> Api:
    """Return the API server of a kubeconfig's context; sends no request.

    None is the current context, and the context's namespace.

    Raises:
        UnknownState: the context does not exist, or the kubeconfig can't be read.
    """
    config, rest = official_client.part("config"), official_client.part("client.rest")
    try:
        contexts, active = config.list_kube_config_contexts()
        known = {each["name"]: each for each in contexts}
        if context and context not in known:
            names = ", ".join(sorted(known))
            raise UnknownState(f"no context {context}; the kubeconfig has {names}")
        chosen = known[context] if context else active
        with official_client.errors() as errors:
            made = config.new_client_from_config(context=chosen["name"])
    except config.ConfigException as error:
        said = str(error).rstrip(".")
        why = "there is no kubeconfig" if "No configuration found" in said else said
        raise UnknownState(f"{why}; set KUBECONFIG, or `kubectl config use-context`") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, IsADirectoryError) as error:
        why = " ".join(str(error).split())
        raise UnknownState(f"the file of KUBECONFIG is not a kubeconfig: {why}") from None
    except UnknownState:
        raise
    except Exception as error:  # of a login: any of three libraries, or a file that is not readable
        why = " ".join(_cause(error).split())
        raise UnknownState(f"the kubeconfig or its login does not work: {why}") from None
    if errors:
        why = " ".join(errors[0].split())
        raise UnknownState(f"the login of context {chosen['name']} failed: {why}")
    made.configuration.retries = False
    made.configuration.connection_pool_maxsize = CONNECTIONS
    made.rest_client = rest.RESTClientObject(made.configuration)
    usual = chosen["context"].get("namespace") or "default"
    given = namespace or usual
    other = {"context": chosen["name"] != (active or {}).get("name"), "namespace": given != usual}
    return Api(
        client=made,
        context=str(chosen["name"]),
        namespace=given,
        chosen=frozenset(name for name, is_other in other.items() if is_other),
    )


def unconnected(context: str | None, namespace: str | None, why: str) -> Api:
    """Return an API that answers no request, for what can be read without a cluster."""
    return Api(client=None, context=context or "", namespace=namespace or "", unselected=why)


def _content(text: bytes | None, path: str = "") -> dict[str, Any]:
    """Return the JSON object of an answer; other text, also a part of a list, as its message.

    It is the object, or the list, that a ``path`` names; an empty list of Go may be null.
    """
    with contextlib.suppress(ValueError, AttributeError, TypeError):
        content: dict[str, Any] = json.loads(text or b"")
        match, items = _PLACE.fullmatch(path), content.get("items")
        is_list = isinstance(items, list) or str(content.get("kind")).endswith("List")
        is_asked = match is None or ("metadata" in content if match["name"] else is_list)
        rest = (content.get("metadata") or {}).get("continue")
        if is_asked and not rest and all("metadata" in each for each in items or ()):
            return content
    return {"message": (text or b"").decode("utf-8", "replace")[:200]}


def _is_status(content: Object) -> bool:
    return content.get("kind") == "Status"


def _warning_text(header: str) -> str:
    """Return the text of a Warning header (RFC 7234, 5.5).

    >>> _warning_text('299 - "would violate PodSecurity"')
    'would violate PodSecurity'
    """
    match = re.match(r'\d{3} \S+ "(.*)"', header)
    return match[1].replace('\\"', '"') if match else header


def _unix_time(header: str | None) -> float | None:
    """Return a Date header as a Unix time.

    >>> _unix_time("Thu, 01 Jan 1970 00:01:00 GMT"), _unix_time("soon"), _unix_time(None)
    (60.0, None, None)
    """
    try:
        return parsedate_to_datetime(header).timestamp() if header else None
    except ValueError:
        return None


def _cause(error: BaseException) -> str:
    """Return the innermost cause of a connection error, without the objects urllib3 prints."""
    reason = getattr(error, "reason", None) or error
    inner = reason.args[-1] if isinstance(reason, HTTPError) and reason.args else None
    return str(inner) if isinstance(inner, BaseException) else str(reason).rpartition(": ")[2]
