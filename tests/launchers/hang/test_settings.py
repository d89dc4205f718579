import pytest

from launchers.exits import Exit, LaunchError
from launchers.flags.command_line import DEFAULTS
from launchers.hang.settings import FLOORS, from_env


def test_by_default_hangs_are_watched_within_the_time_limit_of_collectives() -> None:
    found = from_env({})
    assert found.is_watched and found.floors == FLOORS
    assert max(FLOORS.values()) == FLOORS["start"] == int(str(DEFAULTS["ddp_timeout"]))
    assert not from_env({"DPO_HANG_WATCHDOG": "0"}).is_watched


@pytest.mark.parametrize(
    ("text", "id", "named"),
    [
        ("steps=60", "hang-phase-unknown", "did you mean step"),
        ("step=0", "hang-floor", "restarts.hang.floors.step: '0'"),
        ("step=1m", "hang-floor", "'1m'"),
        ("step", "hang-floor", "''"),
        ("save=86401", "hang-floor", "from 1 to 86400"),
    ],
)
def test_wrong_floors_are_refused_by_name(text: str, id: str, named: str) -> None:
    with pytest.raises(LaunchError) as refused:
        from_env({"DPO_HANG_FLOORS": text})
    assert (refused.value.code, refused.value.id) == (Exit.CONFIG, id)
    assert named in str(refused.value)
