"""States after the end of a gang: the rank that ended first, and the JobSet's rule."""

from launchers.exits import USER, Exit
from launchers.stages.attempt_record import End
from scripts.observe.cluster import condition
from scripts.observe.view import Rank, View
from scripts.why.words import Condition, Facts, after, clean, matched, who

NO_RECORD = "it left no termination message"
OWN_STATES = frozenset(
    {
        Exit.NO_PROGRESS,
        Exit.OUT_OF_MEMORY,
        Exit.PREFLIGHT,
        Exit.HANG,
        Exit.IO,
        Exit.UNAVAILABLE,
        Exit.PREEMPTED,
        Exit.TERMINATED,
    }
)
"""Exit codes with a state of their own."""
OOM_KILLED = "OOMKilled"
FIRST_JOB = r"first failed job: (?P<job>[^)]+)\)"


def _succeeded(view: View) -> Facts | None:
    if view.terminal != "Completed":
        return None
    export = view.files is not None and view.files.has_export
    return {
        "result": "export/ holds the model" if export else "all stages are done",
        "next": f"`helm test {view.run} -n {view.namespace}` verifies the export."
        if export
        else "Nothing to do.",
    }


def _facts(view: View, end: End) -> Facts:
    ranks = [rank for rank in view.ranks if rank.number == end.rank]
    name = who(ranks) if ranks else f"rank {end.rank}"
    return {
        "who": name if end.rank is not None else "a rank",
        "cause": clean(end.cause) or "no cause is recorded",
        "remedy": end.remedy or f"See `megatron-dpo logs {view.run} --rank {end.rank or 0}`.",
        "stage": end.stage or "start",
        "code": end.code,
    }


def _ended_with(*codes: Exit) -> Condition:
    """Return the condition that the rank that ended first had one of the exit codes."""

    def holds(view: View) -> Facts | None:
        end = _root(view)
        return _facts(view, end) if end is not None and end.code in codes else None

    return holds


def _root(view: View) -> End | None:
    return None if view.terminal == "Completed" or view.is_running else view.root


def _user_error(view: View) -> Facts | None:
    end = _root(view)
    return None if end is None or end.code not in USER - OWN_STATES else _facts(view, end)


def _preflight_failed(view: View) -> Facts | None:
    end = _root(view)
    if end is None or not (end.code == Exit.PREFLIGHT or end.id.startswith("preflight-")):
        return None
    if end.code in USER:
        return None
    found = dict(_facts(view, end))
    for check in view.attempt.failed_checks if view.attempt else ():
        if check.rank == end.rank and check.device:
            found["who"] = f"{found['who']}, {check.device}"
            break
    return found


def _host_memory(view: View) -> Facts | None:
    killed = [rank for rank in view.ranks if rank.reason == OOM_KILLED]
    if killed:
        return {"who": who(killed), "cause": ""}
    end = _root(view)
    if end is None or end.failure_class != "host-memory":
        return None
    return {"who": _facts(view, end)["who"], "cause": after(end.cause)}


def _gang_incomplete(view: View) -> Facts | None:
    end = _root(view)
    return _facts(view, end) if end is not None and end.id == "gang-incomplete" else None


def _hub_unavailable(view: View) -> Facts | None:
    end = _root(view)
    if end is None or end.code != Exit.UNAVAILABLE or end.id == "gang-incomplete":
        return None
    return _facts(view, end)


def _pod_evicted(view: View) -> Facts | None:
    evicted = [rank for rank in view.ranks if rank.reason == "Evicted"]
    return {"who": who(evicted), "cause": clean(evicted[0].message)} if evicted else None


def _pod_rejected(view: View) -> Facts | None:
    """Match pods that the kubelet failed by itself: their containers have no exit code."""
    ranks = [each for each in view.ranks if each.phase == "Failed" and each.exit_code is None]
    found = next((each for each in ranks if each.reason not in ("", "Evicted")), None)
    if found is None:
        return None
    facts = {"node": found.node or "NODE", "reason": found.reason, "cause": clean(found.message)}
    return {"who": found.name, **facts}


def _terminated(view: View) -> Facts | None:
    end = _root(view)
    if end is None or end.code not in (Exit.PREEMPTED, Exit.TERMINATED) or view.is_suspended:
        return None
    return {"who": _facts(view, end)["who"], "cause": after(end.cause)}


def _rank_failed(view: View) -> Facts | None:
    """Match ends without a state of their own, with or without a termination message."""
    if view.terminal == "Completed":
        return None
    end = _root(view)
    if end is not None:
        if end.code in USER | OWN_STATES or end.failure_class == "host-memory":
            return None
        return _facts(view, end)
    failed = [rank for rank in view.ranks if _is_unexplained(rank)]
    if not failed or view.is_suspended:  # Kueue's eviction ended them
        return None
    first = failed[0]
    return {
        "who": first.name,
        "code": first.exit_code,
        "cause": clean(first.message) or NO_RECORD,
        "remedy": f"See `megatron-dpo logs {view.run} --rank {first.number}`.",
    }


def _is_unexplained(rank: Rank) -> bool:
    return bool(rank.exit_code) and rank.end is None and rank.reason != OOM_KILLED


def _failure(view: View) -> tuple[str, str]:
    """Return reason and message of the JobSet's failure; empty if it has not failed."""
    if view.terminal != "Failed":
        return "", ""
    found = condition(view.jobset, "Failed")
    job = matched(FIRST_JOB, str(found.get("message") or ""))
    message = clean(str(found.get("message") or ""))
    for each in view.snapshot.jobs:
        if job and each["metadata"]["name"] == job["job"]:
            said = condition(each, "Failed") or condition(each, "FailureTarget")
            message = clean(str(said.get("message") or "")) or message
    return str(found.get("reason") or "unknown"), message


def _jobset_user_rule(view: View) -> Facts | None:
    reason, message = _failure(view)
    return {"cause": message} if reason == "FailJobSetFailurePolicyAction" else None


def _restarts_exhausted(view: View) -> Facts | None:
    reason, message = _failure(view)
    if reason != "ReachedMaxRestarts":
        return None
    return {"counted": view.restarts[1], "most": view.max_restarts, "cause": message}


def _jobset_failed(view: View) -> Facts | None:
    reason, message = _failure(view)
    if not reason or reason in ("FailJobSetFailurePolicyAction", "ReachedMaxRestarts"):
        return None
    return {"reason": reason, "cause": message or "no message"}


CONDITIONS: dict[str, Condition] = {
    "succeeded": _succeeded,
    "no-progress": _ended_with(Exit.NO_PROGRESS),
    "gpu-memory": _ended_with(Exit.OUT_OF_MEMORY),
    "user-error": _user_error,
    "preflight-failed": _preflight_failed,
    "hang": _ended_with(Exit.HANG),
    "host-memory": _host_memory,
    "gang-incomplete": _gang_incomplete,
    "storage-failed": _ended_with(Exit.IO),
    "hub-unavailable": _hub_unavailable,
    "pod-evicted": _pod_evicted,
    "pod-rejected": _pod_rejected,
    "terminated": _terminated,
    "rank-failed": _rank_failed,
    "jobset-user-rule": _jobset_user_rule,
    "restarts-exhausted": _restarts_exhausted,
    "jobset-failed": _jobset_failed,
}
