"""Settings of the hang watchdog reach the launcher; the probe judges the launcher's heartbeat."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from launchers.config.hang import FLOORS, Hang, from_env
from launchers.gang.peer_monitor import KEEPALIVE_INTERVAL_SECONDS, SILENCE_LIMIT_SECONDS
from launchers.hang.alive import BEAT_SECONDS
from tests.chart.helm import Document, Refused, env, merged, pod, render, template
from tests.chart.test_preflight import KEYS


def parsed(values: Document) -> Hang:
    given = env(render(values))
    return from_env({name: value for name, value in given.items() if isinstance(value, str)})


def probe(values: Document) -> Any:
    return pod(render(values))["containers"][0].get("livenessProbe")


def test_every_phase_has_a_floor_in_schema_and_launcher() -> None:
    floors = KEYS["restarts"]["properties"]["hang"]["properties"]["floors"]
    assert floors["propertyNames"]["enum"] == list(FLOORS)


def test_what_the_values_say_reaches_the_launcher() -> None:
    assert parsed({}) == Hang(is_watched=True, floors=FLOORS)
    found = parsed({"restarts": {"hang": {"floors": {"step": 120, "save": 60}}}})
    assert found.floors == {**FLOORS, "step": 120, "save": 60}


def test_a_disabled_watchdog_leaves_no_probe() -> None:
    off = {"restarts": {"hang": {"enabled": False}}}
    assert not parsed(off).is_watched
    assert probe(off) is None and "DPO_ALIVE_FILE" not in env(render(off))


def test_a_release_without_the_key_is_watched() -> None:
    """``helm upgrade --reuse-values`` keeps the values of an earlier chart."""
    assert parsed({"restarts": {"hang": None}}).is_watched


@pytest.mark.parametrize("floors", [{"steps": 60}, {"step": 0}, {"step": "1m"}])
def test_what_cannot_be_is_refused_by_the_schema(floors: Document) -> None:
    with pytest.raises(Refused):
        template(merged({"restarts": {"hang": {"floors": floors}}}))


def test_the_probe_fails_for_an_old_heartbeat_only(tmp_path: Path) -> None:
    file = tmp_path / "alive"
    words = [w.replace("/tmp/dpo-alive", str(file)) for w in probe({})["exec"]["command"]]
    assert str(file) in words[-1]

    def code() -> int:
        return subprocess.run(words, check=False).returncode

    assert code() == 0  # a launcher that has not started yet
    file.touch()
    assert code() == 0
    long_ago = time.time() - 5 * BEAT_SECONDS - 1
    os.utime(file, (long_ago, long_ago))
    assert code() != 0


def test_a_frozen_pod_ends_before_its_peers_give_up() -> None:
    """Afterwards it is being deleted, and no longer probed."""
    found = probe({})
    fails = 5 * BEAT_SECONDS + found["periodSeconds"] * found["failureThreshold"]
    ends = fails + found["terminationGracePeriodSeconds"]
    assert ends <= SILENCE_LIMIT_SECONDS - KEEPALIVE_INTERVAL_SECONDS
