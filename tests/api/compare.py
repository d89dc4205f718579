"""Give drawn pod parts to the chart and to an API server, and compare what both say."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from jsonschema import Draft7Validator

from scripts.dev import pod_schema
from scripts.dev.pod_forms import Schema
from tests.api.parts import Parts
from tests.api.sections import SECTIONS, placed
from tests.api.server import Server
from tests.chart.helm import CHART, Document, merged
from tests.chart.test_values import SCHEMA
from tests.fuzz.renderer import Renderer
from tests.refusals import printed

KINDS = (
    *("ConfigMap", "JobSet", "NetworkPolicy", "PersistentVolumeClaim", "Pod", "ServiceAccount"),
)
"""Kinds that the chart renders."""
OPENAPI: Mapping[str, Schema] = pod_schema.openapi(
    pod_schema.lowest((CHART / "Chart.yaml").read_text(encoding="utf-8"))
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Verdicts of both on one layer of values."""

    section: str
    values: Document
    chart: str
    """Why the chart refuses: ids, or keys of the schema; empty if it renders."""
    server: str | None
    """The server's message, empty if it accepts; None where it was not asked: the chart refuses
    parts that it would change on the way into a pod."""

    @property
    def verdict(self) -> str:
        """Return who refuses: ``both``, ``none``, ``chart``, ``server``, or ``unasked``."""
        if self.chart:
            if self.server is None:
                return "unasked"
            return "both" if self.server else "chart"
        return "server" if self.server else "none"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A chart and a server."""

    chart: Path
    renderer: Renderer
    server: Server

    def of(self, seeds: range) -> Iterator[Outcome]:
        """Draw one layer of values for each seed; the sections take turns."""
        [base] = [pod for pod in self._objects({}) if pod["metadata"]["name"] == "node"]
        names = list(SECTIONS)
        for seed in seeds:
            section = names[seed % len(names)]
            parts = Parts(chance=random.Random(seed), types=OPENAPI)  # noqa: S311
            yield self._outcome(section, SECTIONS[section].draw(parts), base)

    def _outcome(self, name: str, values: Document, base: Document) -> Outcome:
        refused = _by_schema(values)
        if not refused:
            answer = self.renderer.ask(merged(values), self.chart)
            refused = _ids(answer.refusal) if answer.refusal else ""
        if refused:
            pod = placed(SECTIONS[name], base, values)
            said = None if pod is None else self.server.refusal(pod)
        else:
            messages = map(self.server.refusal, objects(answer.objects))
            said = next(filter(None, messages), "")
        return Outcome(section=name, values=values, chart=refused, server=said)

    def _objects(self, values: Document) -> list[Document]:
        return list(objects(self.renderer.ask(merged(values), self.chart).objects))


def objects(rendered: list[Document]) -> Iterator[Document]:
    """Yield what the API server checks: the JobSet's pods by role, and the other objects.

    The server has no JobSets, so a ConfigMap stands for one: labels and annotations have the same
    rules for every kind.
    """
    for document in rendered:
        if document["kind"] != "JobSet":
            yield document
            continue
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": document["metadata"]}
        for job in document["spec"]["replicatedJobs"]:
            pod = job["template"]["spec"]["template"]
            metadata = {**pod["metadata"], "name": job["name"]}
            spec = {"serviceAccountName": "default", **pod["spec"]}  # as the admission plugin does
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _by_schema(values: Document) -> str:
    """Return the keys that the schema refuses, without positions and names of the user's."""
    found = {
        ".".join(str(part) for part in error.absolute_schema_path if isinstance(part, str))
        for error in Draft7Validator(SCHEMA).iter_errors(values)
    }
    return ", ".join(sorted(re.sub(r"^properties[.]|[.]properties|[.]items", "", f) for f in found))


def _ids(refusal: str) -> str:
    where, found = printed.by_helm(refusal)
    return ", ".join(sorted({each.id if where == "chart" else each.path for each in found}))
