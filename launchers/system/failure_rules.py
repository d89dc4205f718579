"""Patterns of messages that state why training ended, each with its class, exit code and remedy.

The only table of such patterns; git's own messages are in ``stages/git.py``. Add a row for a new
message, and the message to ``tests/attribution/``. The first row that matches wins.

A user code ends the run for good, so a row has one only if every restart would fail again. The
same exception may be transient once a step was completed: ``early`` rows then no longer apply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from launchers.exits import Exit, FailureClass


@dataclass(frozen=True, kw_only=True)
class FailureRule:
    """A pattern of a message, its class and its exit code."""

    id: str
    pattern: re.Pattern[str]
    failure_class: FailureClass
    code: Exit
    remedy: str
    early: bool = False
    """Applies only before the first step."""
    later: Exit | None = None
    """Exit code once a step was completed; by default ``code``."""
    in_log: bool = False
    """Also sought in the lines of a log whose last exception does not state a cause."""

    def code_at(self, *, started: bool) -> Exit:
        """Return the exit code.

        Args:
            started: whether a training step was completed.
        """
        return self.code if self.later is None or not started else self.later


def _rule(
    id: str,
    failure_class: FailureClass,
    code: Exit,
    pattern: str,
    remedy: str,
    *,
    early: bool = False,
    later: Exit | None = None,
    in_log: bool = False,
) -> FailureRule:
    return FailureRule(
        id=id,
        pattern=re.compile(pattern),
        failure_class=failure_class,
        code=code,
        remedy=remedy,
        early=early,
        later=later,
        in_log=in_log,
    )


CASCADE = re.compile(
    # a check of arguments may name NCCL or Gloo, too
    r"^(?!(?:Assertion|Value|Type|Import|NotImplemented)Error)"
    r".*(?:Connection (?:reset|closed|refused)|Broken pipe|NCCL|ncclRemoteError|[Gg]loo|TCPStore"
    r"|DistNetworkError|DistStoreError|DistBackendError|SignalException|SIGTERM)"
)
"""Exceptions of a rank whose peer ended, or which torchrun ended."""
TERMINATED = re.compile(r"SignalException|SIGTERM")
WRAPPERS = re.compile(r"DatasetGenerationError")
"""Exceptions that only wrap another one."""

MEMORY_REMEDY = (
    "raise the pod's memory limit (resources.limits.memory) or lower the number of workers"
)
RECIPE_REMEDY = "correct the recipe or plugin: a restart would fail again before the first step"
_NODE = "check the node's GPUs and driver; cordon the node if it fails again"

CAUSES = (
    _rule(
        "node-limit",
        FailureClass.INFRA,
        Exit.PREFLIGHT,
        r"Too many open files|Errno 24\b|can't start new thread|Resource temporarily unavailable"
        r"|No file descriptors available|received 0 items of ancdata|inotify",
        "raise the limits of the container runtime (open files, processes)",
    ),
    _rule(
        "locked-memory",
        FailureClass.INFRA,
        Exit.PREFLIGHT,
        r"ibv_(?:reg|create)\w* failed|Unable to register memory|Unable to create extended CQ"
        r"|fi_mr_reg failed",
        "raise the limit of locked memory in the container runtime (ulimit -l: unlimited)",
        in_log=True,
    ),
    _rule(
        "host-shared-memory",
        FailureClass.HOST_MEMORY,
        Exit.PEER,
        r"insufficient shared memory|out of shared memory|creating shared memory segment"
        r"|unable to (?:allocate|open|resize|mmap)(?!.*No such file).*(?:shared memory|/torch_)"
        r"|posix_fallocate failed|/dev/shm/.*No space left|No space left.*/dev/shm"
        r"|killed by signal: Bus error",
        "raise sharedMemory.size",
        in_log=True,
    ),
    _rule(
        "gpu-memory",
        FailureClass.GPU_MEMORY,
        Exit.OUT_OF_MEMORY,
        r"(?i:cuda).*out of memory|OutOfMemoryError|CU(?:BLAS|DNN|SOLVER)_STATUS_ALLOC_FAILED"
        r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY",
        "lower recipe.args.max_length, or increase the parallel sizes or recomputation",
        later=Exit.PEER,
        in_log=True,
    ),
    _rule(
        "host-memory",
        FailureClass.HOST_MEMORY,
        Exit.PEER,
        r"^MemoryError|not enough memory: you tried to allocate|can't allocate memory"
        r"|Cannot allocate memory|Errno 12\b|std::bad_alloc|ArrowMemoryError"
        r"|DataLoader worker \(pid.*killed by signal: Killed|Unable to allocate .* for an array",
        MEMORY_REMEDY,
        in_log=True,
    ),
    _rule(
        "gpu-fault",
        FailureClass.INFRA,
        Exit.PREFLIGHT,
        r"uncorrectable (?:NVLink |ECC )?error|ECC_UNCORRECTABLE|NVRM: Xid|fallen off the bus"
        r"|GPU is lost|hardware stack error|[Uu]nable to determine the device handle"
        r"|row remapping failure|nvlink error|GPU requires reset",
        _NODE,
        in_log=True,
    ),
    _rule(
        "gpu-missing",
        FailureClass.INFRA,
        Exit.PREFLIGHT,
        r"setup doesn't support bf16/gpu|libcuda\.so|No CUDA GPUs|no GPUs found|CUDA driver version"
        r"|NVIDIA driver on your system|no CUDA-capable device|no NVIDIA driver"
        r"|busy or unavailable|system not yet init|driver mismatch|cudaGetDeviceCount"
        r"|CUDA unknown error|CUDA driver initialization failed|forward compatibility was attempted"
        r"|invalid device ordinal|no kernel image is available"
        r"|CUDA initialization|NVML|nvidia-smi|CUDA error: (?:unknown error|initialization error)"
        r"|CUDA is not available|not compiled with CUDA",
        "check the node's GPUs and driver",
    ),
    _rule(
        "device-assertion",
        FailureClass.UNKNOWN,
        Exit.PEER,
        r": block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion ",
        "check the token ids and labels against the vocabulary: an index or a value is out of "
        "range; extraEnv.CUDA_LAUNCH_BLOCKING=1 shows the call",
        in_log=True,
    ),
    _rule(
        "cuda-error",
        FailureClass.UNKNOWN,
        Exit.PEER,
        # of NCCL's watchdog, which finds the error of a kernel of its own rank
        r"terminated with exception: CUDA error: ",
        "extraEnv.CUDA_LAUNCH_BLOCKING=1 shows the call; check the node's GPUs if it fails again",
        in_log=True,
    ),
    _rule(
        "port-taken",
        FailureClass.INFRA,
        Exit.PREFLIGHT,
        r"EADDRINUSE|Address already in use",
        "set another rendezvous port, or end the process that holds this one",
        in_log=True,
    ),
    _rule(
        "collective-timeout",
        FailureClass.HANG,
        Exit.HANG,
        r"caught collective operation timeout|Timed out waiting \d+ms for (?:recv|send) operation"
        r"|failed to pass monitoredBarrier|watchdog got stuck|timed out in monitoredBarrier"
        r"|Application timeout caused pair closure",
        "look for the rank that stopped first in the ranks' logs",
        in_log=True,
    ),
    _rule(
        "hub-offline-file",
        FailureClass.USER,
        Exit.INPUT_MISSING,
        r"OfflineModeIsEnabled|offline mode is enabled|outgoing traffic has been disabled",
        "training is offline: name inputs that the download stage fetches (recipe.model, "
        "recipe.dataset)",
        early=True,
    ),
    _rule(
        "name-resolution",
        FailureClass.NETWORK,
        Exit.UNAVAILABLE,
        r"Temporary failure in name resolution|Name or service not known|No address associated"
        r"|nodename nor servname|Failed to resolve|Could not resolve host|NameResolutionError",
        "check the DNS of the pods",
    ),
    _rule(
        "certificate",
        FailureClass.USER,
        Exit.CONFIG,
        r"CERTIFICATE_VERIFY_FAILED",
        "set extraEnv.SSL_CERT_FILE to the file of your CA certificates",
    ),
    _rule(
        "libraries-differ",
        FailureClass.USER,
        Exit.CONFIG,
        r"undefined symbol: |version `\S+' not found|Could not find shared object file",
        "use an image whose libraries fit together: a package was built for other releases",
        early=True,
    ),
    _rule(
        "network",
        FailureClass.NETWORK,
        Exit.UNAVAILABLE,
        r"HTTPS?ConnectionPool|MaxRetryError|ConnectTimeout|ReadTimeout|\bConnectionError"
        r"|\bConnectError|RemoteProtocolError|ChunkedEncodingError|IncompleteRead"
        r"|couldn't connect to|Couldn't reach|LocalEntryNotFoundError|429 (?:Client|Too Many)"
        r"|\b5\d\d Server Error|SSLError|SSLEOFError|RemoteDisconnected|DownloadDeadlineError",
        "check the pods' network access; a restart retries",
    ),
)
"""Causes that count even in a message that looks like a cascade, such as NCCL's."""

RULES = (
    _rule(
        "flag-not-taken",
        FailureClass.USER,
        Exit.CONFIG,
        r"remaining_argv|^error: (?:unrecognized|argument|ambiguous|the following arguments)",
        "correct recipe.args: ms-swift does not accept this flag or value",
    ),
    _rule(
        "not-finite",
        FailureClass.MODEL,
        Exit.DATA,
        r"found NaN in|found Inf in|Unexpected result (?:nan|inf|-inf)\b"
        r"|(?:Loss|loss|grad(?:ient)?s?|grad norm) (?:is|are|became) (?:nan|NaN|inf|Inf)"
        r"|probability tensor contains either",
        "lower recipe.args.learning_rate, check the data and the weights",
    ),
    _rule(
        "workspace-full",
        FailureClass.STORAGE,
        Exit.QUOTA,
        # the last but one is torch.save's only message for a full disk
        r"No space left on device|[Dd]isk quota exceeded|Errno 28\b|Errno 122\b"
        r"|inline_container\.cc.*unexpected pos|[Nn]ot enough disk space|File too large|Errno 27\b",
        "free space on the workspace or enlarge it",
    ),
    _rule(
        "workspace-permission",
        FailureClass.STORAGE,
        Exit.QUOTA,
        r"^(?!.*ConnectionError).*(?:Read-only file system|Permission denied"
        r"|Operation not permitted|Errno 13\b|Errno 30\b)",
        "grant the pod's user write access to the workspace (podSecurityContext.fsGroup)",
    ),
    _rule(
        "workspace-fault",
        FailureClass.STORAGE,
        Exit.IO,
        r"Input/output error|PytorchStreamWriter failed writing|Stale (?:NFS )?file handle"
        r"|Errno 5\b|Errno 116\b"
        r"|Transport endpoint is not connected|Errno 107\b|Remote I/O error|Errno 121\b"
        r"|Structure needs cleaning|Errno 117\b|Host is down|Errno 112\b|No such device\b"
        r"|Cannot send after transport endpoint|Errno 108\b|Device or resource busy|Errno 16\b"
        r"|No locks available|Errno 37\b",
        "check the storage of the workspace",
    ),
    _rule(
        "hub-access",
        FailureClass.USER,
        Exit.AUTH,
        r"401 Client Error|403 Client Error|403 Forbidden|GatedRepoError|gated repo"
        r"|LocalTokenNotFoundError|[Ii]nvalid (?:user )?token|gated dataset",
        "set secrets.hf.existingSecret or secrets.modelscope.existingSecret",
    ),
    _rule(
        "hub-not-found",
        FailureClass.USER,
        Exit.INPUT_MISSING,
        r"404 Client Error|RepositoryNotFoundError|RevisionNotFoundError|EntryNotFoundError"
        r"|is not a valid model identifier|is not a valid git identifier|HFValidationError"
        r"|is not a local folder",
        "correct recipe.model or recipe.dataset",
    ),
    _rule(
        "network-unreachable",
        FailureClass.NETWORK,
        Exit.UNAVAILABLE,
        r"Network is unreachable|No route to host|Connection timed out|Errno 1(?:01|10|13)\b",
        "check the pods' network access; a restart retries",
    ),
    _rule(
        "trainer-no-step",
        FailureClass.DATA,
        Exit.DATA,
        # transformers trainer.py, for a data loader without batches
        r"max_steps must be set to a positive value if dataloader does not have a length",
        "the dataset has too few rows for one step: add rows, lower "
        "recipe.args.per_device_train_batch_size, or set dataloader_drop_last: false",
        early=True,
    ),
    _rule(
        "model-damaged",
        FailureClass.MODEL,
        Exit.DATA,
        r"SafetensorError(?!: Error while serializing)|PytorchStreamReader|invalid load key"
        r"|UnpicklingError|not a distributed checkpoint|BadZipFile|CheckpointingException"
        r"|file in archive is not in a subdirectory",
        "download the model again, or remove the damaged checkpoint",
    ),
    _rule(
        "model-unsuitable",
        FailureClass.MODEL,
        Exit.DATA,
        r"size mismatch for|loading state_dict|Global shape mismatch|Unrecognized model in"
        r"|does not recognize this architecture|does not appear to have|Unrecognized configuration"
        r"|Tokenizer class .* does not exist|no file named .*(?:model|pytorch|safetensors)"
        r"|automatically match `model_type`|no suitable `model_type`|Missing key(?:s|\(s\))? in"
        r"|Unexpected key\(s\)|Can't load (?:tokenizer|the configuration|config|feature)"
        r"|TemplateSyntaxError|not a valid JSON file|chat_template is not set|backend tokenizer",
        "use a model that ms-swift supports, with all of its files",
    ),
    _rule(
        "dataset-broken",
        FailureClass.DATA,
        Exit.DATA,
        r"DatasetGenerationError|ArrowInvalid|DatasetNotFoundError|EmptyDataset|CastError"
        r"|DataFilesNotFoundError|ArrowTypeError|ArrowNotImplementedError|MaxLengthError"
        r"|Failed to retrieve the dataset|ValueError: rejected_response|inputs\.rejected is None"
        r"|requires a train_dataset|AssertionError: (?:messages?|val_sample): "
        r"|no samples? (?:left )?to consume",
        "correct the dataset (recipe.dataset)",
    ),
    _rule(
        "dataset-not-json",
        FailureClass.DATA,
        Exit.DATA,
        # later the first two may come from a server's response; the next are pandas'
        r"JSONDecodeError|UnicodeDecodeError|ValueError: Trailing data|Expected object or value"
        r"|object of type 'NoneType' has no len",  # ms-swift, after all rows were filtered out
        "correct the dataset (recipe.dataset)",
        early=True,
    ),
    _rule(
        "path-missing",
        FailureClass.USER,
        Exit.INPUT_MISSING,
        r"FileNotFoundError|NotADirectoryError|IsADirectoryError|does not exist|No such file",
        "use paths that exist in the pods",
        early=True,
    ),
    _rule(
        "recipe-or-plugin",
        FailureClass.USER,
        Exit.CONFIG,
        r"^(?:\w+\.)*_*(?:ModuleNotFoundError|ImportError|ValueError|TypeError|KeyError|SyntaxError"
        r"|AttributeError|AssertionError|NotImplementedError|NameError|IndexError|PicklingError"
        r"|IndentationError|ValidationError|StrictDataclass\w*Error)|RuntimeError: Failed to import"
        r"|(?:is not|must be|should be) divisible by|args\.output_dir: .* already exists",
        RECIPE_REMEDY,
        early=True,
    ),
)
"""Causes by the last exception, if it is not a cascade."""
