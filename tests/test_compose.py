"""launchers/compose.yaml says what the command of docker in launchers/HOSTS.md says."""

import re
import shlex
from typing import Any

import pytest

from launchers.config.settings import from_env
from launchers.yaml_file import read_yaml
from scripts.helm import ROOT

SERVICE: dict[str, Any] = read_yaml(ROOT / "launchers" / "compose.yaml")["services"]["launcher"]
GIVEN = {"NODE_RANK": "0", "MASTER_ADDR": "HOST_0"}


def filled(text: object) -> str:
    """Replace ``${NAME:-default}`` and ``${NAME:?message}`` as compose does."""
    return re.sub(
        r"\$\{(\w+):([-?])([^}]*)\}",
        lambda found: GIVEN.get(found[1], found[3] if found[2] == "-" else ""),
        str(text),
    )


ENVIRONMENT = {name: filled(value) for name, value in SERVICE["environment"].items()}


@pytest.mark.parametrize("page", ["HOSTS.md", "HOSTS.zh.md"])
def test_the_compose_file_says_what_the_page_says(page: str) -> None:
    text = (ROOT / "launchers" / page).read_text("utf-8")
    command = re.search(r"^docker run .*?(?=^```)", text, re.M | re.S)
    assert command is not None and "compose.yaml" in text
    words = shlex.split(command[0].replace("\\\n", " "))
    options = {word: words[n + 1] for n, word in enumerate(words) if word.startswith("-")}
    environment = dict(words[n + 1].split("=", 1) for n, word in enumerate(words) if word == "-e")
    assert environment == ENVIRONMENT
    assert options["--network"] == SERVICE["network_mode"] == "host"
    assert options["--shm-size"] == SERVICE["shm_size"]
    assert options["--ulimit"] == f"memlock={SERVICE['ulimits']['memlock']}"
    assert f"{options['--stop-timeout']}s" == SERVICE["stop_grace_period"]
    assert options["-w"] == SERVICE["working_dir"]
    assert [filled(each).partition(":")[2] for each in SERVICE["volumes"]] == ["/repo", "/shared"]
    assert words[-4:] == SERVICE["command"]
    [device] = SERVICE["deploy"]["resources"]["reservations"]["devices"]
    assert (options["--gpus"], device["driver"]) == (device["count"], "nvidia")


def test_the_launcher_takes_the_environment() -> None:
    settings = from_env(ENVIRONMENT)
    place = settings.launch.place
    assert (place.nodes, place.rank, place.master_addr) == (2, 0, "HOST_0")
    assert (settings.launch.gpus_per_node, settings.launch.grace) == (8, 300)
    comment = (ROOT / "launchers" / "compose.yaml").read_text("utf-8")
    assert {str(settings.gang.port), str(place.master_port)} <= set(re.findall(r"\d{5}", comment))


def test_a_host_has_to_say_its_rank_and_the_first_host() -> None:
    needed = {n for n, text in SERVICE["environment"].items() if ":?" in str(text)}
    assert needed == GIVEN.keys() and ":?" in SERVICE["image"]
