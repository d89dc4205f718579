import pickle
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from launchers.exits import Exit, FailureClass, LaunchError
from launchers.system.failures import TAIL, Verdict, tail, verdict, worst
from launchers.system.training_end import attribute

TRACE = "Traceback (most recent call last):\n  File 'x.py', line 1, in f\n"


def judged(text: str, *, started: bool) -> Verdict:
    found = verdict(text, started=started)
    assert found is not None
    return found


@pytest.mark.parametrize("prefix", ["", "[rank3]: "])
@pytest.mark.parametrize("code", [Exit.IO, Exit.CONFIG, Exit.DATA])
def test_an_error_of_our_own_ends_with_the_code_that_it_carries(prefix: str, code: Exit) -> None:
    error = LaunchError(code, "/w/rows: a is missing here", "look at it", id="i-d")
    printed = "".join(traceback.format_exception(error)).splitlines()
    found = judged("".join(f"{prefix}{line}\n" for line in printed), started=True)
    assert found.code == code
    assert found.cause == f"launchers.exits.LaunchError: {error}"
    assert found.id == "i-d"


@pytest.mark.parametrize("given", [FailureClass.MODEL, None])
def test_the_class_of_an_error_of_our_own_is_read_from_its_traceback(given: Any) -> None:
    error = LaunchError(Exit.DATA, "NaN in the loss", "x", id="i", failure_class=given)
    found = judged("".join(traceback.format_exception(error)), started=True)
    assert found.failure_class == (given or FailureClass.DATA)


def test_an_error_of_our_own_with_no_known_code_is_of_no_known_cause() -> None:
    text = "launchers.exits.LaunchError: x; y\nexit code: NONE [i]\n"
    assert judged(text, started=True).code == Exit.PEER


DIRECT = "\n\nThe above exception was the direct cause of the following exception:\n\n" + TRACE


@pytest.mark.parametrize(
    ("root", "code"),
    [
        ("OSError: [Errno 28] No space left on device", Exit.QUOTA),
        ("OSError: [Errno 116] Stale file handle", Exit.IO),
        ("pyarrow.lib.ArrowInvalid: JSON parse error: Column() changed", Exit.DATA),
        ("RuntimeError: something else", Exit.DATA),
    ],
)
def test_a_wrapper_is_judged_by_what_it_wraps(root: str, code: Exit) -> None:
    wrapper = "datasets.exceptions.DatasetGenerationError: An error occurred while generating"
    assert judged(f"{TRACE}{root}{DIRECT}{wrapper}\n", started=False).code == code


IGNORED = (
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f>\n"
    f"{TRACE}    assert self._parent_pid == os.getpid()\n"
    "AssertionError: can only test a child process\n"
)
DURING = "\n\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    "text",
    [
        # what a finaliser raises does not make it a user error
        f"{TRACE}torch.distributed.DistBackendError: NCCL error\n{IGNORED}",
        f"{TRACE}RuntimeError: Connection closed by peer{DURING}{TRACE}AttributeError: x\n",
    ],
)
def test_an_exception_that_follows_a_cascade_does_not_hide_it(text: str) -> None:
    assert judged(text, started=False).cascade


def test_an_earlier_exception_that_was_handled_does_not_count() -> None:
    text = "ValueError: handled\nlater text\nOSError: [Errno 28] No space left on device\n"
    assert judged(text, started=False).code == Exit.QUOTA


BAR = "Train:  22%|██▏       | 21/96 [00:11<01:00,  1.24it/s]"
ASSERTION = (
    "/pytorch/IndexKernel.cu:111: operator(): block: [0,0,0], thread: [0,0,0] Assertion "
    '`index < sizes[i] && "index out of bounds"` failed.'
)


def test_an_assertion_in_a_kernel_is_the_cause_of_what_the_watchdog_then_finds() -> None:
    what = "Process group watchdog thread terminated with exception: CUDA error: x"
    ended = f"terminate called after throwing an instance of 'c10::E'\n  what():  NCCL {what}\n"
    found = judged(f"{BAR}{ASSERTION}\n{ended}", started=True)
    assert (found.id, found.cause, found.cascade) == ("device-assertion", ASSERTION, False)
    found = judged(ended, started=True)
    assert (found.id, found.cascade) == ("cuda-error", False)


def test_an_assertion_in_a_kernel_is_the_cause_of_the_exception_of_a_later_call() -> None:
    last = "torch.AcceleratorError: CUDA error: device-side assert triggered"
    found = judged(f"{ASSERTION}\n{TRACE}{last}\n", started=False)
    assert (found.id, found.cause) == ("device-assertion", ASSERTION)


def test_the_cause_comes_before_its_cascade() -> None:
    cascade = Verdict(code=Exit.PEER, id="cascade", cause="NCCL", remedy="", cascade=True)
    unknown = Verdict(code=Exit.PEER, id="exception", cause="segfault", remedy="")
    known = Verdict(code=Exit.DATA, id="dataset-broken", cause="bad row", remedy="")
    assert worst([cascade, unknown, known]) == known
    assert worst([cascade, unknown]) == unknown
    assert worst([]) is None


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    log.write_bytes(b"x" * (TAIL + 10) + b"end")
    assert len(tail(log)) == TAIL
    assert tail(log).endswith("end")
    assert tail(tmp_path / "none") == ""


def test_an_error_of_our_own_is_the_same_on_another_rank() -> None:
    error = LaunchError(Exit.DATA, "a row is too long", "cut it", id="row-long")
    found = pickle.loads(pickle.dumps(error))
    printed = ["".join(traceback.format_exception(each)) for each in (error, found)]
    assert printed[0] == printed[1] and vars(found) == vars(error)


def test_a_number_of_the_system_means_storage_with_a_path_and_another_cause_without() -> None:
    for text in ("[Errno 11] Resource temporarily unavailable", "[Errno 110] Connection timed out"):
        for where, is_storage in ((": '/workspace/x'", True), ("", False)):
            found = judged(f"OSError: {text}{where}", started=True)
            assert (found.failure_class == FailureClass.STORAGE) is is_storage
    device = "OSError: [Errno 11] Resource temporarily unavailable: '/dev/x'"
    assert judged(device, started=True).id == "node-limit"


def test_a_line_about_the_gpu_takes_precedence_over_its_consequence_only() -> None:
    assertion = "x.cu:1: f: block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.\n"
    library = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling x"
    other = f"{assertion}OSError: [Errno 28] No space left: '/w'"
    found = [judged(text, started=True).id for text in (library, assertion + library, other)]
    assert found == ["gpu-library", "device-assertion", "workspace-full"]
    line = "ValueError: of 'cuda:0': CUDA error: uncorrectable ECC error"
    quoted = f"KeyError: 'uncorrectable ECC error'\n{line}\n{TRACE}SystemError: x"
    assert judged(quoted, started=True).cause == line


def test_a_gpu_shared_by_two_ranks_is_the_users_error_before_the_first_step_only() -> None:
    text = "torch.distributed.DistBackendError: NCCL error\nDuplicate GPU detected : rank 1 and 0"
    assert judged(text, started=False).code == Exit.CONFIG and judged(text, started=True).cascade
    assert judged(f"{text}\ncode: -98, name: EADDRINUSE", started=True).id == "port-taken"


@pytest.mark.parametrize(
    "text",
    ["RuntimeError: can't start new thread", "torch.AcceleratorError: CUDA error: unknown error"],
)
def test_a_failure_of_the_node_explains_the_abort_of_its_process(text: str) -> None:
    found = attribute([text], "exitcode  : -6", started=True, code=-6)
    assert found is not None and found.failure_class == FailureClass.INFRA
    other = attribute(["ValueError: x"], "exitcode  : -6", started=True, code=-6)
    assert other is not None and other.id == "ended-by-signal"


ROW = (
    "[INFO:swift] Traceback (most recent call last):\n"
    '  File "/opt/site-packages/swift/dataset/preprocessor/core.py", line 71, in _check_messages\n'
    "    assert len(messages) > 0\n{error}\n\n"
    "[WARNING:swift] \N{WHITE UP POINTING BACKHAND INDEX}There are errors in the dataset, the data "
    "will be deleted\n"
)
NO_ROWS = "[INFO:swift] Dataset filtered, origin length: 8, filtered dataset length: {left}\n"
END = (
    "Traceback (most recent call last):\n"
    '  File "/opt/site-packages/datasets/arrow_dataset.py", line 9, in add_column\n'
    "    raise ValueError(1)\n{error}\n"
)


def test_the_most_frequent_error_among_the_rows_is_named_with_its_count() -> None:
    rows = [ROW.format(error=each) for each in ("KeyError: 'a'", *["AssertionError: content"] * 3)]
    log = "".join(rows) + END.format(error="ValueError: Unknown split x")
    found = judged(log, started=False)
    most = "of 4 rows whose error was logged 3 failed with AssertionError: content"
    assert found.cause == f"ValueError: Unknown split x; {most}"
    later = verdict(log, started=True)
    assert later is not None and "rows" not in later.cause


@pytest.mark.parametrize(
    "left, code, id",
    [(0, Exit.DATA, "dataset-rows-left-out"), (7, Exit.CONFIG, "recipe-or-plugin")],
)
def test_an_error_after_every_row_was_left_out_is_the_datas(left: int, code: Exit, id: str) -> None:
    log = NO_ROWS.format(left=left) + END.format(error="ZeroDivisionError: by zero")
    found = judged(log, started=False)
    assert (found.code, found.id) == (code, id)


@pytest.mark.parametrize("rank", ["", "[rank3]: "])
def test_an_exception_without_text_gets_its_file_and_line(rank: str) -> None:
    lines = END.format(error="AssertionError").splitlines()
    found = judged("\n".join(rank + line for line in lines) + "\n", started=False)
    assert found.cause == "AssertionError at datasets/arrow_dataset.py, line 9"
    assert found.id == "recipe-or-plugin"


def test_a_log_of_one_long_line_is_judged_at_once() -> None:
    """A restart waits for the verdict; ms-swift prints all arguments in one line."""
    began = time.process_time()
    assert verdict("args: RLHFArguments(" + "lora_rank=8, " * (TAIL // 13), started=True) is None
    assert time.process_time() - began < 1
