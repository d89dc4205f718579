"""The edge: questions to the API server of a kubeconfig's context, by the official client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import OpenApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from scripts.doctor.answer import Answer, Object
from scripts.problem import Problem

SECONDS = (5, 20)
"""For connecting and for answering; one nodes list of a thousand nodes takes some."""
DRY = {"dryRun": "All", "fieldValidation": "Strict"}


@dataclass(frozen=True, kw_only=True)
class Api:
    """The API server, as the user of a context sees it."""

    client: Any
    context: str
    namespace: str

    def get(self, path: str, **query: str) -> Answer:
        """Read an object or a list."""
        return self._ask("GET", path, query)

    def create(self, path: str, content: Object, *, dry: bool = True) -> Answer:
        """Create an object; dry by default: the server does all but keep it."""
        return self._ask("POST", path, DRY if dry else {}, content)

    def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: Object | None = None
    ) -> Answer:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        method, url, headers, body, _ = self.client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = self.client.call_api(method, url, headers, body, _request_timeout=SECONDS)
            content = _content(response.read())
        except (HTTPError, OSError, OpenApiException) as error:
            return Answer(status=0, content={"message": _innermost(error)})
        warnings = response.headers.getlist("Warning")
        return Answer(
            status=response.status, content=content, warnings=[_text(each) for each in warnings]
        )


def connect(context: str | None, namespace: str | None) -> Api:
    """The API server of a context of the kubeconfig; nothing is asked yet.

    Raises:
        Problem: there is no such context, or no kubeconfig.
    """
    # The client has no types; these are named for what they return.
    read: Callable[[], Any] = config.list_kube_config_contexts
    make: Callable[..., Any] = config.new_client_from_config
    try:
        contexts, active = read()
        known = {each["name"]: each for each in contexts}
        if context and context not in known:
            raise Problem(f"no context {context}; the kubeconfig has {', '.join(sorted(known))}")
        chosen = known[context] if context else active
        made = make(context=chosen["name"])
    except ConfigException as error:
        raise Problem(
            f"{str(error).rstrip('.')}; set KUBECONFIG, or `kubectl config use-context`"
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        raise Problem(f"the file of KUBECONFIG is no kubeconfig: {error}") from None
    made.configuration.retries = False
    made.rest_client = client.rest.RESTClientObject(made.configuration)
    given = namespace or chosen["context"].get("namespace") or "default"
    return Api(client=made, context=str(chosen["name"]), namespace=given)


def _content(text: bytes | None) -> dict[str, Any]:
    """The JSON object of an answer; what is none (an error page of a proxy) becomes a message."""
    try:
        content = json.loads(text or b"{}")
    except ValueError:
        return {"message": (text or b"").decode("utf-8", "replace")[:200]}
    return content if isinstance(content, dict) else {"message": str(content)[:200]}


def _text(header: str) -> str:
    """The text of a Warning header (RFC 7234, 5.5).

    >>> _text('299 - "would violate PodSecurity"')
    'would violate PodSecurity'
    """
    match = re.match(r'\d{3} \S+ "(.*)"', header)
    return match[1].replace('\\"', '"') if match else header


def _innermost(error: BaseException) -> str:
    """The last sentence of an error: the cause, without the objects that urllib3 prints."""
    reason = getattr(error, "reason", None) or error
    return f"no answer ({str(reason).rpartition(': ')[2]})"
