import errno
import os
from collections import Counter

import pytest

from launchers.exits import CLASSES, USER, Exit, FailureClass
from launchers.system.failures import verdict
from tests.attribution.__main__ import keeps_bounds
from tests.attribution.corpus import PARTS, Judged, judge, load
from tests.attribution.installed import cuda_errors, find, longest_common, raised
from tests.launchers.training_environment import needs_oracle, needs_training

CASES = load()
TRACE = (
    'Traceback (most recent call last):\n  File "/x/swift/megatron/f.py", line 3, in f\n'
    "    raise {kind}(\n{kind}: {text}\n"
)
_NAMES = "ENOSPC EDQUOT EFBIG EACCES EPERM EROFS ENAMETOOLONG ENOENT ENOTDIR EISDIR"
OF_THE_USER = frozenset(getattr(errno, name) for name in _NAMES.split())
"""Errors of the system that a restart does not cure: no space, no rights, no file, a long name."""


def test_the_corpus_is_large_and_has_every_class() -> None:
    assert len(CASES) >= 200
    # no message: processes that end with 0 say nothing
    assert {case.failure_class for case in CASES} == {*FailureClass} - {FailureClass.INCOMPLETE}
    assert Counter(case.part for case in CASES).keys() == set(PARTS)
    distinct = {(case.log, case.second, case.agent, case.oom_kills) for case in CASES}
    assert len(distinct) >= 200


def test_the_bounds_hold() -> None:
    judged = list(judge(CASES))
    wrong = [each.case for each in judged if not each.is_right]
    assert [case.name for case in wrong] == []
    assert [each.case.name for each in judged if each.restarts_user_error] == []
    assert [each.case.name for each in judged if each.ends_for_good] == []


def test_the_bounds_fail_for_one_user_error_that_is_restarted() -> None:
    judged = list(judge(CASES))
    assert keeps_bounds(judged)
    case = next(case for case in CASES if case.code == Exit.CONFIG)
    wrong = Judged(case=case, failure_class=case.failure_class, code=Exit.PEER, cascade=False)
    assert not keeps_bounds([*judged, wrong])
    other = next(case for case in CASES if case.code == Exit.IO)
    wrong = Judged(case=other, failure_class=other.failure_class, code=Exit.CONFIG, cascade=False)
    assert not keeps_bounds([*judged, wrong])


def test_class_and_exit_code_of_a_label_agree() -> None:
    """User, data and model errors are not restarted; a node, network or hang is."""
    ends = {FailureClass.USER, FailureClass.DATA, FailureClass.MODEL}
    both = {FailureClass.STORAGE, FailureClass.GPU_MEMORY}
    for case in CASES:
        if case.failure_class not in both:
            assert (case.code in USER) == (case.failure_class in ends), case.name


@needs_oracle
def test_a_message_taken_from_a_source_stands_there() -> None:
    missing = []
    for case in CASES:
        if case.source.startswith("https://github.com/") or ": " in case.source:
            continue
        path = find(case.source)
        if path is None and case.source.startswith(("swift/", "megatron/", "launchers/", "torch/")):
            missing.append(case.name)
        elif path is not None and path.suffix == ".py":
            message = case.log.split(": ", 1)[-1]
            if longest_common(message, path) < min(9, len(message)):
                missing.append(case.name)
    assert missing == []


@needs_oracle
def test_what_the_training_code_raises_before_the_first_step_is_a_user_error() -> None:
    found = list(raised())
    assert len(found) > 500
    wrong = [
        f"{kind}: {text}"
        for kind, text in found
        if (v := verdict(TRACE.format(kind=kind, text=text), started=False)) is None
        or v.code not in USER
    ]
    assert len(wrong) <= 0.01 * len(found), wrong


@pytest.mark.parametrize("started", [False, True])
def test_no_error_of_the_system_ends_a_run_but_those_of_files_space_and_rights(
    started: bool,
) -> None:
    ended = set()
    for number in errno.errorcode:
        name = type(OSError(number, "")).__name__
        found = verdict(f"{name}: [Errno {number}] {os.strerror(number)}: '/w/x'", started=started)
        if found is not None and found.code in USER:
            ended.add(number)
    early = {errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
    transient = early if started else set()
    assert ended == OF_THE_USER - transient


@needs_training
def test_no_error_of_cuda_ends_a_run_but_memory_before_the_first_step() -> None:
    errors = cuda_errors()
    assert {"out of memory", "unrecognized error code"} < errors and len(errors) > 100
    ended = {
        (error, started)
        for error in errors
        for started in (False, True)
        if (v := verdict(f"RuntimeError: CUDA error: {error}", started=started)) is None
        or v.code in USER
    }
    assert ended == {("out of memory", False)}


def test_every_exit_code_has_a_class() -> None:
    assert set(CLASSES) == set(Exit)
