"""No handler of file system errors answers "there is none" where something depends on it.

A handler of ``OSError`` (or of ``Exception``) that does not raise, or that raises a user's error,
must be in the table below with the reason why nothing is deleted, started again or refused by it.
Questions to the workspace go through ``system/lookup.py`` instead.
"""

import ast
from collections.abc import Iterator

from launchers import PACKAGE
from launchers.exits import USER

BROAD = {"OSError", "IOError", "EnvironmentError", "PermissionError", "Exception", "BaseException"}
ALLOWED: dict[str, str] = {
    "the error is passed on, or ends this process with its own code": """
        command.py:main gang/leader.py:Leader._serve gang/member.py:_introduce
        preflight/preflight.py:Preflight._door preflight/preflight.py:Preflight.answer
        storage/lock.py:Lock._create storage/lock.py:await_chain storage/run_lease.py:end
        system/lookup.py:certain system/retry.py:retry system/threads.py:each.work
        system/threads.py:begin.work reference/forward_pass.py:_from_rank_0
        training/saving/background.py:Writes._run training/saving/write_process.py:serve
        rehearsal/load_export.py:main stages/export.py:link_or_copy proof/run.py:_rank
        preflight/probes.py:_lacks.tried
    """,
    "a record: without it the run trains, with a warning": """
        training/ledger/recorder.py:Recorder._writes evaluation/probe.py:record
        metrics/power.py:PowerMeter._work evaluation/probe.py:_gathered
    """,
    "the recipe is the user's file, and who may read it does not change": """
        config/recipe_file.py:load
    """,
    "a list of hosts that cannot be read is of unknown length": "config/host_lists.py:_lines",
    "a connection, not a file": """
        gang/handshake.py:Handshakes._accept gang/handshake.py:Handshakes._read
        gang/handshake.py:Handshakes._refuse hang/agreement.py:HangAgreement._gathered
        hang/agreement.py:HangAgreement._decide hang/agreement.py:_judged
        gang/peer_monitor.py:PeerMonitor.send_keepalives.work gang/peer_monitor.py:PeerMonitor.watch
        gang/protocol.py:Connection.close preflight/gang_probes.py:PortProbe._serve
        preflight/gang_probes.py:PortProbe._tell preflight/gang_probes.py:PortProbe.__exit__
        progress/exporter.py:_server progress/notify.py:event standby/message.py:Waiting._receive
        standby/standby.py:Standby._hand_over standby/agent.py:Worker.takes
    """,
    "evidence, reports and logs: they end nothing and decide nothing": """
        hang/evidence.py:Scene._ask hang/evidence.py:Scene._keep hang/stacks.py:size
        hang/evidence.py:_read hang/flight_recorder.py:ask hang/flight_recorder.py:parse
        hang/record.py:write hang/stacks.py:py_spy metrics/model.py:found
        metrics/writer.py:Writer._work preflight/report.py:Report.write
        preflight/collective.py:_phases preflight/worker.py:Worker.record
        progress/notify.py:_Notifier.look progress/phases.py:Marks.mark progress/phases.py:read
        progress/progress.py:quietly progress/training.py:Tail.lines
        progress/training.py:summarising.work rehearsal/host_samples.py:sampling.work
        run/helm_release.py:installation_time run/plan_file.py:record run/plan_file.py:read_sizes
        stages/attempt_record.py:end storage/disk.py:size system/failures.py:tail
        system/log_periodically.py:log_periodically.report system/process.py:_copy
        training/saving/foreground.py:Parts.flush training/saving/foreground.py:Parts._written
        system/threads.py:repeat.work system/training_end.py:_away termination.py:write
        training/collect/batch_rows.py:written
        training/packs/packing.py:_publish training/tokens/cache.py:_count
        training/tokens/running.py:Running.restart training/tokens/running.py:Running.add
        logs.py:flush stop/uncaught.py:_print training/trackers.py:_wrapped.start
        training/trackers.py:_without_errors.logged stages/clone.py:warn_if_moved
    """,
    "what a person reads about a run: it names what could not be read": """
        state/command.py:main state/document.py:State.is_folder state/document.py:State.names
        state/document.py:State.text state/document.py:State._metrics
        state/document.py:State.modified state/files.py:archive state/contents.py:_is_run
        state/files.py:walk
    """,
    "a touch: its reader judges that it is missing": """
        hang/alive.py:beating hang/alive.py:_renew hang/workspace_watch.py:WorkspaceWatch._touch
        storage/lock.py:Lock._beats storage/lock.py:Lock._touch storage/disk.py:note_use
    """,
    "upstream drops the row for any exception; it is counted": """
        training/tokens/row_account.py:each
    """,
    "a lock that is not released becomes stale": "storage/lock.py:Lock.__exit__",
    "a later check judges the same file and raises": "inputs/model_preview.py:_local",
    "the node (/proc, /sys, cgroups, devices): a check or a figure is left out": """
        system/proc_stat.py:has_ended
        preflight/probes.py:torch_cuda preflight/probes.py:_ipc_lock preflight/probes.py:_size
        preflight/probes.py:ask preflight/gang_probes.py:free_port
        storage/lock_owner.py:_place system/host_memory.py:_stored
        system/host_memory.py:_text
        system/proc_stat.py:read_stat system/process.py:Child.end state/stacks.py:_environ
        state/stacks.py:_held standby/message.py:_set_oom_score standby/message.py:_oom_score_of
        system/process.py:hide_variables standby/message.py:outcome
        standby/standby.py:Standby._start standby/worker.py:_holds_gpu
    """,
    "kept memory and caches: without them the same work is done again": """
        standby/kept_memory.py:KeptMemory.__init__ standby/kept_memory.py:kept_bytes
        standby/kept_memory.py:open_own standby/kept_memory.py:clear_own
        run/kernel_archive.py:contents run/kernel_archive.py:seed run/kernel_archive.py:_fill
        run/kernel_archive.py:_remove_stale run/kernel_cache.py:kernels run/kernel_cache.py:_save
        run/prefetch.py:_prefetch run/prefetch.py:_request training/tokens/make.py:make
        training/packs/packing.py:_dealt
    """,
    "the node's own disk: the workspace is used in its place": """
        storage/node_disk.py:push storage/node_disk.py:nearest storage/node_disk.py:clear
        training/saving/staging.py:Staging.make_room training/saving/staging.py:Staging.reserve
        training/saving/staging.py:Staging.write training/saving/staging.py:Staging.copy
    """,
    "a checkpoint that cannot be deleted stays": """
        storage/retention.py:apply storage/retention.py:prepare
    """,
}
"""Places by reason: file and function."""


def test_every_handler_that_answers_for_the_storage_has_a_reason() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{scope}"
        for path in PACKAGE.rglob("*.py")
        for scope in swallowing(ast.parse(path.read_text(encoding="utf-8")))
    }
    listed = [place for places in ALLOWED.values() for place in places.split()]
    assert len(listed) == len(set(listed))
    assert found - set(listed) == set(), "raise, or ask through launchers/system/lookup.py"
    assert set(listed) - found == set(), "no such handler any more"


def test_the_rule_itself_sees_each_form() -> None:
    forms = (
        "try:\n  a()\nexcept OSError:\n  return None",
        "try:\n  a()\nexcept (ValueError, PermissionError):\n  found = ''",
        "try:\n  a()\nexcept Exception:\n  pass",
        "try:\n  a()\nexcept:\n  pass",
        "with contextlib.suppress(OSError):\n  a()",
        "try:\n  a()\nexcept OSError:\n  raise LaunchError(Exit.CONFIG)",
    )
    for form in forms:
        body = "\n".join(f"  {line}" for line in form.splitlines())
        assert list(swallowing(ast.parse(f"def f():\n{body}"))) == ["f"], form
    kept = "def f():\n  try:\n    a()\n  except OSError as error:\n    raise unknown(error)"
    missing = "def f():\n  try:\n    a()\n  except FileNotFoundError:\n    return None"
    assert not list(swallowing(ast.parse(kept))) and not list(swallowing(ast.parse(missing)))


def swallowing(node: ast.AST, scope: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the functions with a handler of broad errors that does not raise."""
    for child in ast.iter_child_nodes(node):
        is_scope = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if isinstance(child, ast.ExceptHandler) and swallows(child):
            yield ".".join(scope)
        is_call = isinstance(child, ast.Call) and "suppress" in names(child.func)
        if is_call and any(BROAD & names(each) for each in ast.iter_child_nodes(child)):
            yield ".".join(scope)
        yield from swallowing(child, (*scope, getattr(child, "name", "")) if is_scope else scope)


def swallows(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler catches an error of a storage and does not pass it on."""
    caught = {"BaseException"} if handler.type is None else names(handler.type)
    codes = {each.attr for each in ast.walk(handler) if isinstance(each, ast.Attribute)}
    is_user = bool(codes & {code.name for code in USER})
    return bool(BROAD & caught) and (is_user or not isinstance(handler.body[-1], ast.Raise))


def names(node: ast.AST) -> set[str]:
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
