"""A preempted run resumes with the same results."""

from launchers.storage import checkpoint
from tests.e2e import real, standin
from tests.e2e.measured import measured
from tests.e2e.real import MINUTES, MainJob
from tests.e2e.until import until


def test_a_preempted_run_resumes_and_reaches_the_same_loss(main_job: MainJob) -> None:
    space = main_job.space
    low, run = real.release(space, "dpo-low", {"kueue": {"priorityClass": "low"}})
    low.install()
    saved = until(
        "the low run has a complete checkpoint",
        lambda: checkpoint.newest(run.home / "checkpoints"),
        seconds=MINUTES * 60,
    )
    high, other = standin.release(space, "dpo-high", hold=True)
    with measured("preemption: helm install of a high run to both its pods running"):
        high.install()
        other.running(2)
    assert run.suspended
    assert run.pods() == []
    stopped = checkpoint.newest(run.home / "checkpoints")
    assert stopped is not None and stopped.step >= saved.step
    assert stopped.step < max(main_job.losses), "it had ended before it was preempted"
    assert real.losses(run)[-1][0] <= stopped.step  # SIGTERM has saved the last step
    standin.finish(other)
    with measured("preempted run: back at work to JobSet Completed"):
        run.running(2)
        run.ended(seconds=MINUTES * 60)
    real.keep(run)
    # A rank may end before its pod is removed: then it is a restart that does not count.
    assert run.restarts[1] == 0
    assert run.progress["attempt"] == 2
    resumed = f"resume=/workspace/runs/dpo-low/checkpoints/checkpoint-{stopped.step}"
    assert all(resumed in run.log(pod.name) for pod in run.pods())
    rows = real.losses(run)
    assert rows[-1][0] == max(main_job.losses)
    assert rows == [(step, main_job.losses[step]) for step, _ in rows]
