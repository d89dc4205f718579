"""Another version of ms-swift is refused at once, naming the one to use."""

from __future__ import annotations

import traceback

import pytest

from launchers.exits import Exit, LaunchError
from launchers.logs import LOG
from launchers.system.failures import verdict
from launchers.training.upstream import ACCEPT, Patch, digest, require, require_parameters


def test_a_missing_name_ends_as_an_error_of_the_configuration() -> None:
    with pytest.raises(
        LaunchError, match=r"str has no jion in this image; use .*4\.4\.1"
    ) as refusal:
        require(str, "join", "jion")
    assert refusal.value.code == Exit.CONFIG
    reported = verdict("".join(traceback.format_exception(refusal.value)), started=False)
    assert reported is not None and reported.code == Exit.CONFIG


class Trainer:
    """Upstream's, of a version that is not known."""

    def loss_func(self, labels: int, scale: int) -> None:
        """Take one parameter more."""


def test_other_parameters_end_the_same_way_with_what_may_be_written_instead() -> None:
    require_parameters(Trainer.loss_func, "self", "labels", "scale")
    with pytest.raises(
        LaunchError, match=r"Trainer\.loss_func takes self, labels, scale"
    ) as refusal:
        require_parameters(
            Trainer.loss_func, "self", "labels", otherwise="set recipe.reference: online"
        )
    assert str(refusal.value).endswith("1.6.0, or set recipe.reference: online")
    reported = verdict("".join(traceback.format_exception(refusal.value)), started=False)
    assert reported is not None and reported.code == Exit.CONFIG


def patch(*, changes_numbers: bool, sha256: str = "") -> Patch:
    """Return a patch of ``Trainer`` that was read in version 1.0 of a package that is not here."""
    sources = {"loss_func": {sha256 or digest(Trainer, "loss_func"): "1.0"}}
    return Patch("losses", "no-such-package", changes_numbers, sources)


def test_a_patch_fits_the_source_that_was_read() -> None:
    assert patch(changes_numbers=True).fits(Trainer)


def test_a_patch_that_changes_numbers_is_refused_on_another_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ACCEPT, "loss,losses-too")
    with pytest.raises(LaunchError, match=r"Trainer\.loss_func of no-such-package") as refusal:
        patch(changes_numbers=True, sha256="0" * 64).fits(Trainer)
    assert refusal.value.code == Exit.CONFIG
    assert "patch losses" in refusal.value.cause
    assert "use an image with no-such-package 1.0" in refusal.value.remedy
    assert f"extraEnv.{ACCEPT}: losses " in refusal.value.remedy


def test_a_function_that_is_missing_is_a_source_that_was_not_read() -> None:
    gone = Patch("losses", "no-such-package", True, {"loss": {"0" * 64: "1.0"}})
    with pytest.raises(LaunchError, match=r"Trainer\.loss of"):
        gone.fits(Trainer)


@pytest.mark.parametrize(
    ("changes_numbers", "accept", "fits", "said"),
    [(False, "", False, "not installed"), (True, "x, losses", True, "accepted")],
)
def test_a_patch_steps_aside_or_is_accepted_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    changes_numbers: bool,
    accept: str,
    fits: bool,
    said: str,
) -> None:
    monkeypatch.setenv(ACCEPT, accept)
    monkeypatch.setattr(LOG, "propagate", True)
    assert patch(changes_numbers=changes_numbers, sha256="0" * 64).fits(Trainer) == fits
    assert f"patch losses {said} unknown=Trainer.loss_func" in caplog.text
