"""GPU models known to the planner: memory, peak rates and bandwidths.

Memory is the total capacity in PyTorch's out-of-memory message: the smallest value in public
reports of the model, since the part that firmware and driver reserve varies.
Peaks are from NVIDIA's data sheets, dense bf16 (half of the figure "with sparsity").
"""

import re
from dataclasses import KW_ONLY, dataclass

from launchers.exits import Exit, LaunchError

GPU_PRODUCT = "nvidia.com/gpu.product"
"""Label of NVIDIA's GPU feature discovery: the name that nvidia-smi prints, blanks as `-`."""
GROUPED_KERNELS = (9, 10)
"""Major compute capabilities with a grouped kernel (PyTorch,
``ATen/native/cuda/GroupedBlas.cpp``)."""


@dataclass(frozen=True)
class GpuModel:
    """One GPU model."""

    name: str
    smi: tuple[str, ...]
    """Names printed by ``nvidia-smi --query-gpu=name``."""
    memory_gib: float
    """GiB that PyTorch can use, including a CUDA context."""
    peak_tflops: float
    """Dense bf16 TFLOP/s."""
    hbm_gbs: float
    """GB/s of the GPU's memory, data sheet."""
    nvlink_gbs: float
    """Bus bandwidth (GB/s) of a large all-reduce over the GPUs of one host, as nccl-tests
    defines it. Where none was published, scaled from the same NVLink generation by link count."""
    arch: str
    """Compute capability as the CUDA compiler writes it, e.g. ``sm90``."""
    source: str
    """Source of the bandwidths."""
    _: KW_ONLY
    domain: int = 0
    """GPUs that NVLink joins over several hosts; 0: those of one host."""

    @property
    def groups(self) -> bool:
        """Whether PyTorch has a kernel for the products of all experts (``GROUPED_KERNELS``).

        >>> GPU_MODELS["h100-80g"].groups, GPU_MODELS["a100-80g"].groups, GPU_MODELS["b200"].groups
        (True, False, True)
        """
        return int(self.arch.removeprefix("sm")) // 10 in GROUPED_KERNELS


_AZURE = "Azure/azurehpc-health-checks conf/*.conf: floor for all_reduce of 16 GB"
_SCALED = "scaled from the same NVLink generation by its bandwidth (data sheet)"
_PCIE = "estimate for PCIe 4.0 through host memory, without peer-to-peer: 5 to 12 GB/s"
_B300 = ("NVIDIA B300 SXM6 AC", "NVIDIA B300")
_B200 = "811 GB/s seen for 8 GB200 over NVLink 5 (lixueduan.com, GB200 MNNVL test)"


_ALL = (
    GpuModel("a100-40g", ("NVIDIA A100-SXM4-40GB",), 39.38, 312, 1555, 228, "sm80", _AZURE),
    GpuModel("a100-80g", ("NVIDIA A100-SXM4-80GB",), 79.14, 312, 2039, 228, "sm80", _AZURE),
    GpuModel("a800-80g", ("NVIDIA A800-SXM4-80GB",), 79.14, 312, 2039, 152, "sm80", _SCALED),
    GpuModel("h100-80g", ("NVIDIA H100 80GB HBM3",), 79.10, 989, 3350, 460, "sm90", _AZURE),
    GpuModel("h800-80g", ("NVIDIA H800",), 79.10, 989, 3350, 204, "sm90", _SCALED),
    GpuModel("h20-96g", ("NVIDIA H20",), 95.00, 148, 4000, 460, "sm90", _SCALED),
    GpuModel("h200", ("NVIDIA H200",), 139.72, 989, 4800, 431, "sm90", _AZURE),
    GpuModel("b200", ("NVIDIA B200",), 178.35, 2250, 8000, 811, "sm100", _B200),
    # GB200 NVL72, data sheet
    GpuModel("gb200", ("NVIDIA GB200",), 184.31, 2500, 8000, 811, "sm100", _B200, domain=72),
    GpuModel("b300", _B300, 267.69, 2250, 8000, 811, "sm103", _B200),
    GpuModel("rtx4090", ("NVIDIA GeForce RTX 4090",), 23.53, 165, 1008, 5, "sm89", _PCIE),
    GpuModel("rtx3090", ("NVIDIA GeForce RTX 3090",), 23.57, 71, 936, 5, "sm86", _PCIE),
    GpuModel("a10", ("NVIDIA A10", "NVIDIA A10G"), 21.98, 125, 600, 5, "sm86", _PCIE),
    GpuModel("l4", ("NVIDIA L4",), 21.95, 121, 300, 5, "sm89", _PCIE),
)

GPU_MODELS: dict[str, GpuModel] = {gpu.name: gpu for gpu in _ALL}
"""Models by name. H20: 900 GB/s of NVLink 4 as the H100; A800 and H800: 400 of 600 and 900 GB/s."""


def by_name(name: str) -> GpuModel:
    """Return a model by its name in the values.

    Raises:
        LaunchError: CONFIG, listing the known models.
    """
    if name in GPU_MODELS:
        return GPU_MODELS[name]
    raise LaunchError(
        Exit.CONFIG,
        f"gpuModel: {name!r} is unknown",
        f"use one of {', '.join(GPU_MODELS)}",
        id="gpu-model-unknown",
    )


def by_smi_name(smi: str) -> GpuModel | None:
    """Return the model that nvidia-smi names ``smi``; None if unknown."""
    return next((gpu for gpu in _ALL if smi.strip() in gpu.smi), None)


def by_product(label: str) -> GpuModel | None:
    """Return the model of a node's label ``GPU_PRODUCT``; None if unknown.

    >>> getattr(by_product("NVIDIA-H200-SHARED"), "name", None), by_product("Tesla-T4")
    ('h200', None)
    """
    name = re.sub("-(MIG-.*|SHARED)$", "", label)
    return next((gpu for gpu in _ALL if name in {each.replace(" ", "-") for each in gpu.smi}), None)
