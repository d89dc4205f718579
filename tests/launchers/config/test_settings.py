import pytest

from launchers.config.settings import from_env
from launchers.exits import Exit, LaunchError

ENV = {"DPO_RUN": "r", "DPO_WORKSPACE": "/w"}


def test_the_least_settings_are_run_and_workspace() -> None:
    settings = from_env(ENV)
    launch = settings.launch
    assert (launch.run, launch.nproc_per_node, launch.world_size) == ("r", 1, 1)
    assert settings.stages.skips == frozenset()
    assert settings.stages.recipe.name == "recipe.yaml"
    assert launch.work.home.as_posix() == "/w/runs/r"
    assert settings.reports.metrics_port == 0
    assert from_env(ENV | {"DPO_METRICS_PORT": "9400"}).reports.metrics_port == 9400


def test_a_standby_needs_restarts_in_place() -> None:
    assert not from_env(ENV).training.standby
    assert from_env(ENV | {"DPO_STANDBY": "1"}).training.standby
    assert not from_env(ENV | {"DPO_STANDBY": "1", "DPO_RESTARTS_IN_PLACE": "0"}).training.standby


def test_the_gang_leaves_its_port_to_a_starter_that_gives_it_to_torchrun() -> None:
    assert from_env(ENV | {"MASTER_PORT": "29400"}).gang.port == 29401
    assert from_env(ENV | {"MASTER_PORT": "29500"}).gang.port == 29400


def test_each_stage_has_a_skip_switch() -> None:
    env = ENV | {"SKIP_CLONE": "1", "SKIP_CONVERT": "1", "SKIP_TRAIN": "0", "SKIP_DOWNLOAD": ""}
    assert from_env(env).stages.skips == {"clone", "convert"}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"SKIP_CLOEN": "1"}, "did you mean SKIP_CLONE"),
        ({"DPO_WORKSPCE": "/w"}, "did you mean DPO_WORKSPACE"),
        ({"DPO_MASTR_PORT": "29500"}, "did you mean DPO_MASTER_PORT"),
        ({"DPO_MASTER_PORT_": "tcp://h:1"}, "did you mean DPO_MASTER_PORT"),
        ({"DPO_GANG_PORT": "tcp://10.0.0.1:80"}, "DPO_GANG_PORT='tcp://10.0.0.1:80'"),
        ({"DPO_GANG_PORT": "29500"}, "DPO_GANG_PORT=29500 is MASTER_PORT"),
        ({"SKIP_CLONE": "yes"}, "SKIP_CLONE='yes' is not 0 or 1"),
        ({"DPO_WORKSPACE": "s3://bucket/dpo"}, "DPO_WORKSPACE='s3://bucket/dpo' is not an abs"),
        ({"DPO_WORKSPACE": "~/dpo"}, "DPO_WORKSPACE='~/dpo' is not an absolute path"),
        ({"DPO_LIBRARIES": "/a:models"}, "DPO_LIBRARIES='models' is not an absolute path"),
        ({"DPO_CODE_REF": "main"}, "DPO_CODE_URL is not set"),
        ({"DPO_CODE_URL": "https://host/o/r.git"}, "DPO_CODE_REF is not set"),
        ({"DPO_RUN": "", "DPO_RECIPE": "r.yaml"}, "DPO_RUN is not set"),
        ({"DPO_RUN": "../models"}, "DPO_RUN='../models'"),
        ({"DPO_RUN": ".."}, "DPO_RUN='..'"),
        ({"DPO_METRICS_PORT": "70000"}, "from 1 to 65535"),
        ({"DPO_GPUS_PER_NODE": "all"}, "DPO_GPUS_PER_NODE='all'"),
        ({"DPO_GPUS_PER_NODE": "²"}, "DPO_GPUS_PER_NODE='²'"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(change: dict[str, str], named: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        from_env(ENV | change)
    assert named in str(refusal.value)
    assert refusal.value.code == Exit.CONFIG


def test_the_links_of_a_service_named_dpo_are_no_settings() -> None:
    links = {"SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "80", "SERVICE_PORT_HTTP": "80"}
    links |= dict.fromkeys(("PORT", "PORT_80_TCP"), "tcp://10.0.0.1:80")
    links |= {"PORT_80_TCP_PROTO": "tcp", "PORT_80_TCP_PORT": "80", "PORT_80_TCP_ADDR": "10.0.0.1"}
    links = {f"DPO_CHAT_{name}": text for name, text in links.items()}
    others = {"DPO_DNS_PORT": "udp://10.0.0.1:53", "SKIP_LIST_SERVICE_HOST": "10.0.0.1"}
    assert from_env(ENV | links | others) == from_env(ENV)


@pytest.mark.parametrize(
    ("env", "missing"),
    [
        ({}, "DPO_RUN, DPO_WORKSPACE, DPO_RECIPE are not set"),
        ({"DPO_RECIPE": "r.yaml", "DPO_RUN": "r"}, "DPO_WORKSPACE is not set"),
        (
            {"NNODES": "2", "NODE_RANK": "1", "DPO_RUN": "r", "DPO_RECIPE": "r.yaml"},
            "DPO_WORKSPACE, MASTER_ADDR are not set",
        ),
    ],
)
def test_all_settings_that_are_missing_are_named_at_once(env: dict[str, str], missing: str) -> None:
    with pytest.raises(LaunchError) as refusal:
        from_env(env)
    assert (refusal.value.id, refusal.value.cause) == ("env-missing", missing)
