"""Give drawn pod parts to the chart and to an API server, and compare what both say."""

import queue
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from scripts.dev import pod_schema
from scripts.dev.pod_rules import Schema
from tests.api.parts import Parts
from tests.api.sections import SECTIONS, placed
from tests.api.server import Server
from tests.chart import judged
from tests.chart.helm import BY_SCHEMA, CHART, Document, merged
from tests.chart.renderer import Renderer
from tests.refusals import printed

OPENAPI: Mapping[str, Schema] = pod_schema.openapi(
    pod_schema.lowest((CHART / "Chart.yaml").read_text(encoding="utf-8"))
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Verdicts of both on one layer of values."""

    section: str
    values: Document
    chart: str
    """Reasons of the refusal by the chart, or by the values' judge of what the server refuses: ids
    and paths; empty if there are none."""
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
    chart: Path
    workers: Sequence[tuple[Renderer, Server]]
    """Renderers and connections to one server; each compares one case at a time."""

    def of(self, seeds: range) -> Iterator[Outcome]:
        """Draw one layer of values for each seed; the sections take turns."""
        renderer = self.workers[0][0]
        rendered = objects(renderer.ask(merged({}), self.chart).objects)
        [base] = [o for o in rendered if (o["kind"], o["metadata"]["name"]) == ("Pod", "node")]
        names = list(SECTIONS)
        idle = queue.SimpleQueue[tuple[Renderer, Server]]()
        for worker in self.workers:
            idle.put(worker)

        def compared(seed: int) -> Outcome:
            section = names[seed % len(names)]
            parts = Parts(chance=random.Random(seed), types=OPENAPI)  # noqa: S311
            worker = idle.get()
            try:
                return self._outcome(section, SECTIONS[section].draw(parts), base, *worker)
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(len(self.workers)) as threads:
            yield from threads.map(compared, seeds)

    def _outcome(
        self, name: str, values: Document, base: Document, renderer: Renderer, server: Server
    ) -> Outcome:
        answer = renderer.ask(merged(values), self.chart)
        assert not answer.broken, (values, answer.broken)
        refused = _ids(answer.refusal, merged(values)) if answer.refusal else ""
        if refused:
            pod = placed(SECTIONS[name], base, values)
            said = None if pod is None else server.refusal(pod)
        else:
            messages = map(server.refusal, objects(answer.objects))
            said = next(filter(None, messages), "")
            refused = _by_judge(merged(values)) if said else ""
        return Outcome(section=name, values=values, chart=refused, server=said)


def objects(rendered: list[Document]) -> Iterator[Document]:
    """Yield what API servers check: the objects, and the Jobs and pods that the JobSet creates."""
    for document in rendered:
        yield _with_account(document) if document["kind"] == "Pod" else document
        if document["kind"] != "JobSet":
            continue
        for job in document["spec"]["replicatedJobs"]:
            made = {**job["template"].get("metadata", {}), "name": job["name"]}
            spec = job["template"]["spec"]
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": made, "spec": spec}
            pod = job["template"]["spec"]["template"]
            metadata = {**pod["metadata"], "name": job["name"]}
            yield _with_account(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}
            )


def _with_account(pod: Document) -> Document:
    """Return a pod with a service account, which the disabled admission plugin would set."""
    return {**pod, "spec": {"serviceAccountName": "default", **pod["spec"]}}


def _ids(refusal: str, values: Document) -> str:
    if BY_SCHEMA in refusal:
        return _by_judge(values)
    found = printed.by_helm(refusal)
    if not found:
        raise AssertionError(f"the chart refuses in Helm's words: {refusal}")
    return _listed(found)


def _by_judge(values: Document) -> str:
    return _listed(printed.by_plan(judged.lines(values)))


def _listed(found: Sequence[printed.Refused]) -> str:
    return ", ".join(sorted({f"{each.id} at {_plain(each.path)}" for each in found}))


def _plain(path: str) -> str:
    """Return a path without positions: ``volumes.name`` of ``volumes[0].name``."""
    return re.sub(r"\[[^]]*\]", "", path)
