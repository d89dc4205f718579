"""Causes that count even in a message that looks like a cascade, such as NCCL's."""

from launchers.exits import Exit, FailureClass
from launchers.system.failure_rules.rule import FailureRule
from launchers.system.remedies import GPU_MEMORY_REMEDY, MEMORY_REMEDY, STORAGE_REMEDY

_NODE = "check the node's GPUs and driver; cordon the node if it fails again"
_STORAGE_ERRNO = r"(?:4|5|6|11|16|19|3[5789]|52|6[12]|7[0147]|1[01]\d|12[15-9]|13[013]|95|5[123]\d)"
"""Numbers of errors (errno) that a file system returns if its server or network fails: ETIMEDOUT on
a soft NFS mount, ECOMM and ESHUTDOWN on Lustre, and Linux's internal numbers from 512. Other rows
have missing files, rights and space."""
_SOCKET_ERRNO = r"(?:11|1(?:0[0-5]|1[0-5]))\b"
"""Those that a socket returns more often than a file, where a message names neither."""

CAUSES = (
    FailureRule(
        "workspace-fault",
        Exit.IO,
        # with a path it is a file system's, not a socket's or the limit of processes
        rf"Errno {_STORAGE_ERRNO}\] [^:'\"]+: b?['\"](?!/(?:dev|proc|sys)/)"
        rf"|</(?!torch_)[^>]*>.*: .*\({_STORAGE_ERRNO}\)$|Detail: \[errno {_STORAGE_ERRNO}\]"
        rf"|(?:os error|Os \{{ code:) (?!{_SOCKET_ERRNO}){_STORAGE_ERRNO}[),]",
        STORAGE_REMEDY,
    ),
    FailureRule(
        "node-limit",
        Exit.PREFLIGHT,
        r"Too many open files|can't start new thread(?! at int)|Resource temporarily unavailable"
        r"|No file descriptors available|received 0 items of ancdata|inotify",
        "raise the limits of the container runtime (open files, processes)",
    ),
    FailureRule(
        "thread-limit",
        Exit.PREFLIGHT,
        r"pthread_create (?:failed|error)|RLIMIT_NPROC",
        "raise the limit of processes in the container runtime",
        in_log=True,
    ),
    FailureRule(
        "locked-memory",
        Exit.PREFLIGHT,
        r"ibv_(?:reg|create)\w* failed(?! with error (?!Cannot allocate))|fi_mr_reg failed"
        r"|Unable to (?:register memory|create extended CQ)",
        "raise the limit of locked memory in the container runtime (ulimit -l: unlimited)",
        in_log=True,
    ),
    FailureRule(
        "rdma-unreachable",
        Exit.UNAVAILABLE,
        r"Call to ibv_modify_qp failed with (?:error )?(?:\d+ )?"
        r"(?:Connection timed out|Network is unreachable|No route to host)",
        "check that every RDMA port reaches those of the other hosts: NCCL_IB_HCA and "
        "NCCL_IB_GID_INDEX of extraEnv, NCCL_CROSS_NIC=0 where the fabric has rails",
        in_log=True,
    ),
    FailureRule(
        "rdma-device",
        Exit.PREFLIGHT,
        r"Call to ibv_\w+ failed|Got async (?:\w+ )?event ?: ?"
        r"(?:port error|.*(?:catastrophic|fatal))|nvshmem (?:initialization|setup \w+) failed",
        "check the node's RDMA devices, links and nvidia-peermem; cordon it if it fails again",
        in_log=True,
    ),
    FailureRule(
        "socket-unreachable",
        Exit.UNAVAILABLE,
        r"socket\w+: Connect to \S+ (?:failed|returned) .*"
        r"(?:Connection timed out|Network is unreachable|No route to host)",
        "let the hosts reach each other on every port, since NCCL chooses them, or name another "
        "interface in NCCL_SOCKET_IFNAME of extraEnv",
        early=True,
        in_log=True,
    ),
    FailureRule(
        "host-shared-memory",
        Exit.PEER,
        r"insufficient shared memory|out of shared memory|creating shared memory segment"
        r"|unable to (?:allocate|open|resize|mmap)(?!.*No such file).*(?:shared memory|/torch_)"
        r"|posix_fallocate failed|/dev/shm/.*No space left|No space left.*/dev/shm"
        r"|killed by signal: Bus error|Fatal Python error: Bus error",
        "raise sharedMemory.size",
        in_log=True,
        kind=FailureClass.HOST_MEMORY,
    ),
    FailureRule(
        "nvlink-sharp",
        Exit.PREFLIGHT,
        r"Failed to bind NVLink SHARP|in the Fabric Manager or NVSwitches"
        r"|nvls\.cc\S* NCCL WARN Cuda failure",
        "check the node's fabric manager and NVSwitches; extraEnv.NCCL_NVLS_ENABLE=0 avoids them",
        in_log=True,
    ),
    FailureRule(
        "gpu-taken",
        Exit.PREFLIGHT,
        # torch lists its own process under other words, except where it cannot tell them apart
        r"out of memory.*Process \d+ has \d\d[\d.]* GiB .*"
        r"this process has (?:\d\.\d+ GiB|[\d.]+ MiB)",
        "another process holds the memory of this GPU: end it, or check that pods share no GPU",
        in_log=True,
    ),
    FailureRule(
        "gpu-memory",
        Exit.OUT_OF_MEMORY,
        r"(?i:cuda).*out of memory|OutOfMemoryError(?!: out of resource)"
        r"|CU(?:BLAS|DNN|SOLVER)_STATUS_ALLOC_FAILED"
        r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
        r"|NVML_SUCCESS == .*CUDACachingAllocator",  # fails while it reports it
        GPU_MEMORY_REMEDY,
        later=Exit.PEER,
        in_log=True,
    ),
    FailureRule(
        "host-memory",
        Exit.PEER,
        r"^MemoryError|not enough memory: you tried to allocate|can't allocate memory"
        r"|Cannot allocate memory|std::bad_alloc|ArrowMemoryError"
        r"|DataLoader worker \(pid.*killed by signal: Killed|Unable to allocate .* for an array"
        r"|^memory allocation of \d+ bytes failed|oom_kill event",
        MEMORY_REMEDY,
        in_log=True,
        kind=FailureClass.HOST_MEMORY,
    ),
    FailureRule(
        "gpu-fault",
        Exit.PREFLIGHT,
        r"uncorrectable (?:NVLink |ECC )?error|ECC_UNCORRECTABLE|SXid \("
        r"|NVRM: Xid(?! \([^)]*\): (?:13|31|43|45),)"  # those of a program's errors
        r"|fallen off the bus"
        r"|GPU is lost|hardware stack error|[Uu]nable to determine the device handle"
        r"|row remapping failure|nvlink (?:or a hardware )?error|GPU requires reset",
        _NODE,
        in_log=True,
    ),
    FailureRule(
        "gpu-driver",
        Exit.PREFLIGHT,
        # NCCL's and DeepEP's words for initialisation, driver, device or an unknown error
        r"C(?:uda|UDA) (?:failure|error) (?:3|35|46|10[01]|217|401|80[0-5]|999) '"
        r"|(?:Cuda failure|CUDA error \S+:\d+) '(?:initialization|system|no CUDA|driver|CUDA"
        r"|all CUDA|invalid device ord|unknown|peer)|not supported in the installed CUDA driver"
        r"|incompatible driver context|unsupported display driver|hardware resources required to",
        _NODE,
        in_log=True,
    ),
    FailureRule(
        "gpu-unbuilt",
        Exit.PREFLIGHT,
        # the last two are also bitsandbytes', which then exits
        r"no kernel image is available|compiled with an unsupported toolchain|kernel image is inval"
        r"|named symbol not found|invalid device function|CPU does not support x86",
        "use an image that is built for this GPU and CPU and no newer than the node's driver",
        weak=True,
        in_log=True,
    ),
    FailureRule(
        "gpu-missing",
        Exit.PREFLIGHT,
        r"setup doesn't support bf16/gpu|libcuda\.so|No CUDA GPUs|no GPUs found|CUDA driver version"
        r"|NVIDIA driver on your system|no CUDA-capable device|no NVIDIA driver"
        r"|MPS (?:client|server|control)"
        r"|busy or unavailable|system not yet init|driver mismatch|cudaGetDeviceCount"
        r"|CUDA unknown error|CUDA driver initialization failed|forward compatibility was attempted"
        r"|invalid device ordinal|device < num_gpus|\b0 active drivers"
        r"|CUDA initialization|NVML|nvidia-smi|CUDA error: (?:unknown error|initialization error)"
        r"|CUDA is not available|is_available\(\) is False",
        "check the node's GPUs and driver",
        weak=True,
    ),
    FailureRule(
        "device-assertion",
        Exit.PEER,
        r": block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion ",
        "check the token ids and labels against the vocabulary: an index or a value is out of "
        "range; extraEnv.CUDA_LAUNCH_BLOCKING=1 shows the call",
        in_log=True,
    ),
    FailureRule(
        "cuda-error",
        Exit.PEER,
        # of NCCL and its watchdog, which find the error of a kernel of their own rank
        r"terminated with exception: CUDA error: |C(?:uda|UDA) failure (?:\d+ )?'",
        "extraEnv.CUDA_LAUNCH_BLOCKING=1 shows the call; check the node's GPUs if it fails again",
        in_log=True,
    ),
    FailureRule(
        "gpu-library",
        Exit.PEER,
        # usually no memory is left for its handle, but a failed kernel ends so, too
        r"CU(?:BLAS|DNN|SOLVER|SPARSE)_STATUS_NOT_INITIALIZED",
        GPU_MEMORY_REMEDY,
        weak=True,
        in_log=True,
        kind=FailureClass.GPU_MEMORY,
    ),
    FailureRule(
        "gpu-shared",
        Exit.CONFIG,
        r"Duplicate GPU detected : rank",
        "give each rank a GPU of its own: unset extraEnv.CUDA_VISIBLE_DEVICES and check that "
        "the pods ask for as many GPUs as they have ranks",
        early=True,
        in_log=True,
    ),
    FailureRule(
        "interface-missing",
        Exit.CONFIG,
        r"no socket interface found|No interface found in the same subnet"
        r"|Unable to find (?:interface|address) for",
        "name an interface that every pod has, or remove NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME "
        "from extraEnv",
        early=True,
        in_log=True,
    ),
    FailureRule(
        "nccl-releases",
        Exit.CONFIG,
        r"Mismatched NCCL version detected",
        "give all pods the same image, by its digest",
        early=True,
        in_log=True,
    ),
    FailureRule(
        "network-devices",
        Exit.PREFLIGHT,
        r"Error: network .+ not found|Failed to initialize any NET plugin"
        r"|NET/OFI (?:Couldn't open|Creating new|Failed to init|OFI fi_getinfo)",
        "check that the pods have the devices of network.profile (RDMA, EFA) and that the image "
        "has the plugin of NCCL for them",
        in_log=True,
    ),
    FailureRule(
        "port-taken",
        Exit.PREFLIGHT,
        r"EADDRINUSE|Address already in use",
        "set another rendezvous port, or end the process that holds this one",
        in_log=True,
    ),
    FailureRule(
        "collective-timeout",
        Exit.HANG,
        r"caught collective operation timeout|Timed out waiting \d+ms for (?:recv|send) operation"
        r"|failed to pass monitoredBarrier|watchdog got stuck|timed out in monitoredBarrier"
        r"|Application timeout caused pair closure|due to (?:a )?(?:ProcessGroupNCCL watchdog hang"
        r"|collective timeout)",
        "look for the rank that stopped first in the ranks' logs",
        in_log=True,
    ),
    FailureRule(
        "dispatch-timeout",
        Exit.HANG,
        r"DeepEP (?:error: timeout|timeout check failed)",
        "look for the rank that stopped first; if none did, check RDMA between the hosts, or set "
        "recipe.args.moe_token_dispatcher_type: alltoall",
        in_log=True,
    ),
    FailureRule(
        "dataset-format",
        Exit.DATA,
        # datasets takes an unknown suffix of a file for a dataset's name; parquet of a newer one
        r"Couldn't reach '[^/']+' on the Hub|Feature type '\w+' not found",
        "give recipe.dataset as .jsonl, .json, .csv, .parquet or .txt, not compressed",
        early=True,
    ),
    FailureRule(
        "hub-offline-file",
        Exit.INPUT_MISSING,
        r"Couldn't find any data file at|OfflineModeIsEnabled|offline mode is enabled"
        r"|outgoing traffic has been disabled",
        "training is offline: name inputs that the download stage fetches (recipe.model, "
        "recipe.dataset)",
        early=True,
    ),
    FailureRule(
        "name-resolution",
        Exit.UNAVAILABLE,
        r"\bgaierror\b|Temporary failure in name resolution|Name or service not known"
        r"|No address associated|Failed to resolve|Could not resolve host|NameResolutionError",
        "check the DNS of the pods",
    ),
    FailureRule(
        "certificate",
        Exit.CONFIG,
        r"CERTIFICATE_VERIFY_FAILED",
        "set extraEnv.SSL_CERT_FILE to the file of your CA certificates",
    ),
    FailureRule(
        "libraries-differ",
        Exit.CONFIG,
        r"undefined symbol: |version `\S+' not found|Could not find shared object file"
        r"|cannot open shared object file: No|Unable to load any of|binary incompatibility"
        r"|compiled using NumPy|multiarray failed to import|cannot import name .*-packages/"
        r"|detected CUDA version|is required for a normal functioning|CUDA Setup failed"
        r"|doesn't have NCCL built in|functions not installed"
        r"|does not match the version torch|operator \S+ does not exist|version incompatibility"
        r"|CUDNN_STATUS_(?:SUBLIBRARY_\w+|VERSION_MISMATCH)|NCCL error in: \S+ invalid argument"
        r"|module '(?:torch|transf|megatron|swift|trl|peft|numpy|triton|flash)[\w.]*' has no",
        "use an image whose libraries fit together: a package was built for other releases",
        early=True,
    ),
    FailureRule(
        "image-start",
        Exit.CONFIG,
        r"error while loading shared libraries: ",
        "use an image that has the libraries of its programs",
        early=True,
        in_log=True,
    ),
    FailureRule(
        "proxy-access",
        Exit.AUTH,
        r"407 Proxy Auth",
        "give the proxy's user and password in HTTPS_PROXY of extraEnv, from a Secret",
        early=True,
    ),
    FailureRule(
        "network",
        Exit.UNAVAILABLE,
        r"HTTPS?ConnectionPool|MaxRetryError|ConnectTimeout|ReadTimeout"
        r"|\b(?:API(?:Timeout|Connection)|Connection)Error"
        r"|\bConnectError|RemoteProtocolError|ChunkedEncodingError|IncompleteRead"
        r"|couldn't connect to|Couldn't reach|LocalEntryNotFoundError|429 (?:Client|Too Many)"
        r"|\b5\d\d Server Error|Server error '5|SSLError|SSLEOFError|RemoteDisconnected"
        r"|DownloadDeadlineError|CAS (?:service|Client) [eE]rror(?!.*os error)"
        r"|integrity check failed"
        r"|[Rr]eqwest ?(?:Middleware )?(?:Error|::)"
        rf"|os error {_SOCKET_ERRNO}|Consistency check failed: file should be of size"
        r"|download incomplete|urlopen error|_InactiveRpcError"
        r"|\b(?:HTTP|status|error) (?:Error|code):? ?(?:429|5\d\d)\b"
        r"|^(?:aiohttp|anyio|botocore|fsspec|http|httpcore|httpx|requests|urllib3)\.\S*"
        r"(?:Timeout|(?:Connect|Disconnect|Protocol|Payload|Read|Write|Network|Proxy)\w*Error)"
        r"|^google\.api_core\.exceptions\.(?:Bad|Int|Retry|TooMany|\w*(?:Unavail|Timeout))\w*: "
        r"|\b(?:Bad Gateway|Gateway Time-?out|Service Unavailable)\b"
        r"|An error occurred \((?:5\d\d|SlowDown|Throttl\w+|RequestT\w+|\w*Unavailable|Int\w*)\)"
        r"|The (?:read|write|handshake) operation timed out"
        r"|Distant resource does not seem to be on|CommError: (?!.*(?:\b40[13]\b|[Pp]ermission))",
        "check the pods' network access; a restart retries",
    ),
)
"""Causes that count even in a message that looks like a cascade, such as NCCL's."""
