"""Causes by the last exception, if it is not a cascade.

A user code ends the run for good, so a row has one only if every restart would fail again. The
same exception may be transient once a step was completed: ``early`` rows then no longer apply.
"""

import re

from launchers.exits import Exit, FailureClass
from launchers.system.failure_rules.rule import FailureRule
from launchers.system.remedies import RECIPE_REMEDY, SPACE_REMEDY, STORAGE_REMEDY

_PACKAGE_REMEDY = "use an image with the package that the message names, or remove what needs it"

RULES = (
    FailureRule(
        "flag-not-taken",
        Exit.CONFIG,
        r"remaining_argv|^error: (?:unrecognized|argument|ambiguous|the following arguments)",
        "correct recipe.args: ms-swift does not accept this flag or value",
    ),
    FailureRule(
        "not-finite",
        Exit.DATA,
        r"found NaN in|found Inf in|Unexpected result (?:nan|inf|-inf)\b"
        r"|(?:Loss|loss|grad(?:ient)?s?|grad norm) (?:is|are|became) (?:nan|NaN|inf|Inf)"
        r"|probability tensor contains either|loss scale already at minimum",
        "lower recipe.args.learning_rate, check the data and the weights",
        kind=FailureClass.MODEL,
    ),
    FailureRule(
        "tracker-key",
        Exit.CONFIG,
        r"(?i:api[_ ]key not configured|no api key conf)|wandb\.errors\.\S*AuthenticationError"
        r"|swanlab login|KeyFileError|CommError: .*(?:\b40[13]\b|[Pp]ermission)",
        "give the tracker's key (extraEnv.WANDB_API_KEY or SWANLAB_API_KEY) that may write its "
        "project, or remove it from recipe.args.report_to",
        early=True,
    ),
    FailureRule(
        "pod-disk-full",
        Exit.QUOTA,
        r"(?:No space left on device|quota exceeded).*'/(?:tmp/|var/|root/\.)",
        "the pod's own disk is full: raise resources.limits.ephemeral-storage, or set "
        "extraEnv.TMPDIR and HF_HOME to folders of the workspace",
    ),
    FailureRule(
        "workspace-full",
        Exit.QUOTA,
        # the last but one is torch.save's only message for a full disk
        r"No space left on device|[Dd]isk quota exceeded|[Nn]ot enough (?:\w+ )?disk space"
        r"|(?:os error|Os \{ code:) (?:27|28|122)\b"
        r"|inline_container\.cc.*unexpected pos|[Dd]isk is full|File too large",
        SPACE_REMEDY,
    ),
    FailureRule(
        "home-permission",
        Exit.QUOTA,
        r"(?:Read-only file system|Permission denied): '/"
        r"(?:root/?['.]|nonexistent|home/[^/]+/\.|\.\w)",
        "set extraEnv.HOME to a folder that the pod's user may write",
    ),
    FailureRule(
        "workspace-permission",
        Exit.QUOTA,
        r"^(?!.*ConnectionError)"
        r".*(?:Read-only file system|Permission denied|Operation not permitted)(?! \w|: '/dev/)",
        "grant the pod's user write access to the workspace (podSecurityContext.fsGroup)",
    ),
    FailureRule(
        "workspace-fault",
        Exit.IO,
        r"Input/output error|disk I/O error|database is locked|PytorchStreamWriter failed writing"
        r"|Stale (?:NFS )?file handle"
        r"|PytorchStreamReader failed reading .*file read failed|SafetensorError: .*I/O error"
        r"|Transport endpoint is not connected|Remote I/O error|Structure needs cleaning"
        r"|Host is down|No such device\b|Cannot send after transport endpoint"
        r"|Device or resource busy|No locks available|support flock",
        STORAGE_REMEDY,
    ),
    FailureRule(
        "hub-access",
        Exit.AUTH,
        r"40[13] Client Error|Client error '40[13]|403 Forbidden|GatedRepoError|gated repo"
        r"|LocalTokenNotFoundError|[Ii]nvalid (?:user )?token|gated dataset",
        "set secrets.hf.existingSecret or secrets.modelscope.existingSecret",
        early=True,
    ),
    FailureRule(
        "store-access",
        Exit.AUTH,
        # of the clients of S3, Google Cloud Storage and Azure, and of their file systems
        r"An error occurred \((?:40[13]|Access\w*|Forbidden|Unauth\w+|Expired\w*|Signature\w+"
        r"|Invalid(?:Access|Client|Token)\w*|\w+TokenException)\)"
        r"|^botocore\.exceptions\.(?:\w*Token\w*|(?:No|Partial)Credentials)Error"
        r"|^google\.(?:auth\.exceptions\.DefaultCred|api_core\.exceptions\.(?:Forb|Unauth|Perm))"
        r"|storage\.\w+\.\w+ access to|^azure\.core\.exceptions\.ClientAuthenticationError"
        r"|^PermissionError: (?!\[Errno)|^OSError: Forbidden: ",
        "give the pods the credentials of the object store: extraEnv from a Secret, or a "
        "serviceAccountName with this right",
        early=True,
    ),
    FailureRule(
        "hub-not-found",
        Exit.INPUT_MISSING,
        r"404 Client Error|Client error '404|(?:Repository|Revision|Entry)NotFoundError"
        r"|is not a valid model identifier|is not a valid git identifier|HFValidationError"
        r"|is not a local folder|Incorrect path_or_model_id|NotExistError|not exists on either"
        r"|An error occurred \((?:404|NoSuch\w+)\)|ResourceNotFoundError|NotFound: 404 ",
        "correct recipe.model or recipe.dataset",
        early=True,
    ),
    FailureRule(
        "network-unreachable",
        Exit.UNAVAILABLE,
        r"Network is unreachable|No route to host|Connection timed out",
        "check the pods' network access; a restart retries",
    ),
    FailureRule(
        "trainer-no-step",
        Exit.DATA,
        # transformers trainer.py, for a data loader without batches
        r"max_steps must be set to a positive value if dataloader does not have a length",
        "the dataset has too few rows for one step: add rows, lower "
        "recipe.args.per_device_train_batch_size, or set dataloader_drop_last: false",
        early=True,
    ),
    FailureRule(
        "rows-too-long",
        Exit.DATA,
        r"MaxLengthError",
        "raise recipe.args.max_length",
    ),
    FailureRule(
        "pickle-refused",
        Exit.DATA,
        r"Weights only load failed\. This file can still|vulnerability issue in `torch\.load`",
        "use an image with the torch that wrote the file, or weights as safetensors",
        kind=FailureClass.MODEL,
    ),
    FailureRule(
        "checkpoint-unsuitable",
        Exit.DATA,
        # of torch, megatron-core and optimizers, as they load a whole one of other sizes
        r"in checkpoint state_dict|Attempting to deserialize object on CUDA|Global shape mismatch"
        r"|unpadded elements must be same|state dict (?:has|contains) a"
        r"|[Ss]ize mismatch between saved|from.model.not.in.state"
        r"|checkpoint being loaded used"
        r"|Can't get attribute '\w+' on <module '(?:megatron|peft|swift|torch|transf)",
        "resume with the sizes, the optimizer and the releases that wrote the checkpoint",
        kind=FailureClass.MODEL,
    ),
    FailureRule(
        "model-damaged",
        Exit.DATA,
        r"SafetensorError(?!: Error while serializing)|PytorchStreamReader|invalid load key"
        r"|UnpicklingError|not a distributed checkpoint|BadZipFile|CheckpointingException"
        r"|file in archive is not in a subdirectory|Error: metadata is None"
        r"|sentencepiece_processor",
        "download the model again, or remove the damaged checkpoint",
        kind=FailureClass.MODEL,
    ),
    FailureRule(
        "model-unsuitable",
        Exit.DATA,
        r"size mismatch for|loading state_dict|Unrecognized model in"
        r"|does not recognize this architecture|does not appear to have"
        r"|Unrecognized (?:configuration|processing|image|video|feature)"
        r"|Tokenizer class .* does not exist|no file named .*(?:model|pytorch|safetensors)"
        r"|automatically match `model_type`|no suitable `model_type`|Missing key(?:s|\(s\))? in"
        r"|Unexpected key\(s\)|Can't load (?:the )?(?:tokenizer|config|feature|image|video|proc)"
        r"|jinja2\.exceptions\.(?!TemplateError)|not a valid JSON file|chat_template is not set"
        r"|backend tokenizer|Tiktoken failed|Error parsing line b|while initializing (?:BPE|U|W)"
        r"|variant of untagged enum|could not parse ModelProto|Unknown quantization",
        "use a model that ms-swift supports, with all of its files",
        early=True,
        kind=FailureClass.MODEL,
    ),
    FailureRule(
        "dataset-broken",
        Exit.DATA,
        r"DatasetGenerationError|ArrowInvalid|DatasetNotFoundError|EmptyDataset|CastError"
        r"|DataFilesNotFoundError|ArrowTypeError|ArrowNotImplementedError"
        r"|Failed to retrieve the dataset|ValueError: rejected_response|inputs\.rejected is None"
        r"|requires a train_dataset|AssertionError: (?:messages?|val_sample): "
        r"|no samples? (?:left )?to consume|Couldn't cast|jinja2\.exceptions\.TemplateError"
        r"|_csv\.Error|Error tokenizing data|level histogram|deserialize thrift"
        r"|Unexpected end of stream|Corrupt \w+ compressed",
        "correct the dataset (recipe.dataset)",
    ),
    FailureRule(
        "locale",
        Exit.CONFIG,
        r"'(?:ascii|charmap|gbk|gb2312)' codec can't (?:de|en)code",
        "set extraEnv.PYTHONUTF8=1: the image's locale is not UTF-8",
        early=True,
    ),
    FailureRule(
        "path-long",
        Exit.CONFIG,
        r"AF_UNIX path too long|File name too long",
        "shorten the path: extraEnv.TMPDIR and HF_HOME, or the names of files",
        early=True,
    ),
    FailureRule(
        "dataset-not-json",
        Exit.DATA,
        # later the first two may come from a server's response; the next are pandas', pyarrow's
        r"BadGzipFile|Compressed file ended|TProtocolException|zlib\.error|LZMAError"
        r"|zstd decompress|JSONDecodeError|decoding a JSON |UnicodeDecodeError"
        r"|ValueError: (?:Trailing data|Value is too|.* when decoding )|Expected object or value"
        r"|object of type 'NoneType' has no len",  # ms-swift, after all rows were filtered out
        "correct the dataset (recipe.dataset)",
        early=True,
    ),
    FailureRule(
        "model-incomplete",
        Exit.DATA,
        # of transformers, mcore-bridge, megatron-core, sentencepiece and torch, as they load
        r"missing_keys: \[|No such file.*(?:\.(?:safetensors|index\.json)\b|/\.metadata')"
        r"|ignore_mismatched_sizes"
        r"|KeyError: '[\w.]*(?:weight|bias|_proj|scale_inv|_blocks|_scales)'"
        r"|file might be corrupted|wrong byte size|Trying to set a tensor of shape|Ran out of input"
        r"|`rope_(?:scaling|parameters)`"
        r"|StrictDataclass\w+Error: (?:Class v|V)alidation error"
        r"|issues during automatic conversion|Unable to load (?:vocabulary|weights)"
        r"|TypeError: not a string|KeyError: 'hunyuan"
        r"|KeyError: '(?:qwen|llama|glm|deepseek|mi\w+ral|minimax|gemma|phi|gpt|kimi|ernie)\w*'"
        r"|(?:KeyError: |Config' object has no attribute )"
        r"'(?:model_type|architectures|rope_\w+|hidden_size|num_\w+|vocab_size)'"
        r"|automatically match `template_type`|Model: .* is not supported"
        r"|purely quantized models|is quantized with|Unrecognized model identifier",
        "use a whole model that ms-swift and the installed transformers support",
        early=True,
        kind=FailureClass.MODEL,
    ),
    FailureRule(
        "dataset-rows",
        Exit.DATA,
        # of datasets, ms-swift's preprocessors, templates, tokenizers and PIL, about rows
        r"Unknown split|corresponds to no data|exists \d+ times in schema|features can't be aligned"
        r"|(?:Column\S* .* not in the dataset|Keys mismatch: between)|column names? .* don't match"
        r"|(?:string|list) indices must be integers|TextEncodeInput|expected string or bytes-like"
        r"|can only concatenate (?:str|list)|'(?:float|int|list)' object has no attribute"
        r"|'NoneType' object has no attribute '(?:strip|split|lower|replace|startswith|encode)'"
        r"|KeyError: '(?:messages|rejected_\w+|chosen|rejected|prompt|response|role|content|from)'"
        r"|cannot identify image|image file is truncated|DecompressionBomb|EmptyDataError"
        r"|(?:BuilderConfig|Config name) .*(?:not found|missing)|Please provide subset"
        r"|same data file format|NonMatching|ExpectedMoreSplits|UnexpectedSplits"
        r"|num_samples should be a positive|out of bounds for size 0|Schemas? .*(?:mismatch|differ)"
        r"|Arrow(?:Key|Capacity|Index)Error|[Ii]mage (?:features and image )?tokens do(?:es)? not"
        r"|Mismatch in `\w+` token count|writer_batch_size|Dataset scripts are no longer"
        r"|convert pandas DataFrame|surrogates not allowed|string class label"
        r"|(?:^|: )(?:av\.error|soundfile|decord|torchcodec|audioread)\.\w|aspect ratio must be"
        r"|must be larger than factor|Could not infer dtype of|must be real number, not"
        r"|int too large to convert",
        "correct the rows of the dataset (recipe.dataset), or recipe.args.columns",
        early=True,
    ),
    FailureRule(
        "compiler-missing",
        Exit.CONFIG,
        r"Failed to find C compiler|CUDA_HOME (?:environment variable is not set|does not exist)"
        r"|[Nn]inja is required|Could not find (?:`?nvcc|CUDA compiler)|Error building extension"
        r"|CalledProcessError: Command .*(?:gcc|g\+\+|/cc|clang|nvcc)\b.*non-zero",
        "use an image with the compilers that training needs (a C compiler, ninja, nvcc)",
        early=True,
    ),
    FailureRule(
        "cache-race",
        Exit.PEER,
        # processes that fill one cache remove each other's files
        r"No such file.*(?:/\.triton/|torchinductor_|tmp\.pid_|/cache-\w+\.arrow|map_cache/"
        r"|torch_extensions/|transformers_modules/)",
        "a restart finds the cache filled; if it fails again, set extraEnv.TRITON_CACHE_DIR or "
        "HF_HOME to a folder of the pod",
    ),
    FailureRule(
        "object-cut",
        Exit.PEER,
        r"^EOFError at \S*multiprocessing/",
        "look for what ended a data worker or another rank, which sent this object",
    ),
    FailureRule(
        "package-missing",
        Exit.CONFIG,
        r"Error: (?!\[Errno).*(?:not installed|[Pp]lease install|pip install|you must install"
        r"|installation is required)",
        _PACKAGE_REMEDY,
    ),
    FailureRule(
        "package-missing",
        Exit.CONFIG,
        r"ModuleNotFoundError|packages that were not found|not compiled with CUDA|working triton",
        _PACKAGE_REMEDY,
        early=True,
    ),
    FailureRule(
        "kernel-unsuitable",
        Exit.CONFIG,
        # of Triton, FlashAttention, cuDNN, cuBLAS, DeepEP and Transformer Engine
        r"out of resource: |cutlass cannot|FlashAttention.* only support|No execution plans"
        r"|No available kernel|flash attention build does not|too old to be supported"
        r"|in function \S+: Assertion failed"
        r"|^triton\.compiler\.errors\.|PTXASError|Failed: Assertion error|PTX codegen error"
        r"|ptxas` failed with error code \d"
        r"|CU(?:DNN|BLAS)_STATUS_(?:NOT_SUPPORTED|ARCH_MISMATCH)|requested functionality is not"
        r"|dot product attention backend|Could not run 'aten::|Expected is_sm\d|compute capability",
        "the image has no kernel for these sizes on this GPU: set attention_backend (or "
        "attn_impl) of recipe.args, or change the sizes or the image",
        early=True,
    ),
    FailureRule(
        "tensors-differ",
        Exit.CONFIG,
        # torch's checks of operands, and of its graph, which fail alike in each start
        r"^RuntimeError: (?!(?i:.*(?:cuda (?:err|driver|unk)|cudnn|cublas|nccl|triton)))"
        r"(?i:.*(?:must (?:match|have|be)|mat[12] |expected .*(?:type|size|shape|device)"
        r"|should be the same|doesn't match|is invalid for|not compatible with|expanded size"
        r"|not implemented for|index k out of"
        r"|split_with_sizes|finished reduction|device string|inplace|backend type associated"
        r"|\b(?:tensors?|dim\w*|variable|backward|gradients?|grad_fn|differentiated)\b))",
        "check that model, plugin and recipe.args fit together: sizes, types or devices of tensors "
        "do not, and a restart would fail again",
        early=True,
    ),
    FailureRule(
        "path-missing",
        Exit.INPUT_MISSING,
        r"FileNotFoundError|NotADirectoryError|IsADirectoryError|does not exist|find '[\w.]+' at '/"
        r"|^(?!.*</torch_).*No such file",  # shared memory of a process that ended
        "use paths that exist in the pods",
        early=True,
    ),
    FailureRule(
        "recipe-or-plugin",
        Exit.CONFIG,
        r"^(?:\w+\.)*_*(?:ModuleNotFoundError|ImportError|ValueError|TypeError|KeyError|SyntaxError"
        r"|AttributeError|AssertionError|NotImplementedError|NameError|IndexError|PicklingError"
        r"|IndentationError|TabError|ZeroDivisionError|OverflowError|RecursionError|UnboundLocalError)"
        r"|^torch\.utils\.checkpoint\.CheckpointError"
        r"|^torch\._\w+\.exc\.(?!\w*(?:Error|Exception|Failed):)"
        r"|^(?:\w+\.)*\w*(?:Config|Usage|Validation|Scanner|Parser|Missing|Unsupported"
        r"|StrictDataclass)\w*(?:Error|Exception)|^RuntimeError: Failed to import"
        r"|Cannot re-initialize CUDA in forked|deterministic[_ ](?:impl|alg)"
        r"|Unrecognized (?:CachingAllocator|key .* allocator)"
        r"|(?:is not|must be|should be) divisible by|args\.output_dir: .* already exists",
        RECIPE_REMEDY,
        early=True,
    ),
)
"""Causes by the last exception, if it is not a cascade."""
_BY_WORDS = frozenset({"recipe-or-plugin", "tensors-differ", "dataset-rows", "dataset-not-json"})
"""Rules by general words: where the exception was raised tells more."""
PLACES = (
    (
        _BY_WORDS,
        "checkpoint-unsuitable",
        re.compile(r", in \w*load_(?:\w*state\w*|\w*checkpoint)$", re.M),
    ),
    (
        _BY_WORDS,
        "model-incomplete",
        re.compile(
            r"configuration_utils.*__getattribute__$|, in (?:_?from_pretrained|\w*rope\w*)$"
            r"|/(?:transformers/core_model_loading|mcore_bridge/(?:bridge|utils)/\w+)\.py\", line",
            re.M,
        ),
    ),
    (
        _BY_WORDS,
        "dataset-rows",
        re.compile(
            r'/swift/\S*dataset/[^"]+", .* in (?:\w+_)?preprocess$|/datasets/(?:builder|load|table'
            r'|data_files|arrow_reader|features/\w+|packaged_modules/\S+)\.py", line',
            re.M,
        ),
    ),
    (
        {"model-damaged"},
        "object-cut",
        re.compile(r'/(?:multiprocessing/(?:connection|queues)|distributed_c10d)\.py", line'),
    ),
    ({"model-damaged"}, "cache-race", re.compile(r'/(?:_inductor|triton)/[^"]+\.py", line')),
    (
        {"workspace-full"},  # semaphores and shared arrays of Python are files in /dev/shm
        "host-shared-memory",
        re.compile(r'/multiprocessing/(?:heap|shared_memory|synchronize)\.py", line'),
    ),
)
"""The ids of rules that tell less than the frames of their exception, and the rule of these."""
