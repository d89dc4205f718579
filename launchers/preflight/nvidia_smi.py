"""Parse ``nvidia-smi -q -x``. Pure.

Field names are those of drivers 470 to 580; missing fields (``N/A``) are ignored.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_NO_ACTION = ("", "None", "N/A")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU."""

    index: int
    name: str
    uuid: str
    bus: str
    """PCI bus id, ``00000000:1B:00.0``."""
    memory_mib: int
    used_mib: int
    uncorrected: int
    """Uncorrected memory errors since the driver was loaded."""
    faults: tuple[str, ...]
    """Persistent faults reported by the driver, as text."""
    slowed: tuple[str, ...]
    """Reasons of current hardware clock throttling, as text."""
    is_divided: bool
    """Whether it is divided by MIG."""

    @property
    def label(self) -> str:
        """Return index, UUID and bus id, which identify the GPU to an administrator."""
        return f"GPU {self.index} ({self.uuid}, {self.bus})"


@dataclass(frozen=True, kw_only=True)
class Smi:
    """Output of nvidia-smi."""

    driver: str
    cuda: str
    """Newest CUDA version that the driver supports, e.g. ``13.0``."""
    gpus: tuple[Gpu, ...]


def parse_smi(text: str) -> Smi:
    """Parse ``nvidia-smi -q -x``.

    Raises:
        ValueError: the text is not that output.
    """
    try:
        # warnings, such as that of a damaged infoROM, come before or after it
        found = re.search("<nvidia_smi_log>.*</nvidia_smi_log>", text, re.DOTALL)
        root = ElementTree.fromstring(found[0] if found else text)
    except ElementTree.ParseError as error:
        raise ValueError(f"nvidia-smi did not print XML: {error}") from None
    return Smi(
        driver=root.findtext("driver_version", ""),
        cuda=root.findtext("cuda_version", ""),
        gpus=tuple(_gpu(index, gpu) for index, gpu in enumerate(root.iter("gpu"))),
    )


def visible(gpus: Sequence[Gpu], chosen: str | None) -> tuple[Gpu, ...]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` allows; nvidia-smi ignores it.

    ``chosen`` is the variable, indices or UUIDs; None if it is not set.
    """
    if chosen is None:
        return tuple(gpus)
    words = [word.strip() for word in chosen.split(",") if word.strip()]
    return tuple(
        gpu
        for word in words
        for gpu in gpus
        if word == str(gpu.index)
        or (word.startswith("GPU-") and gpu.uuid.startswith(word))
        or (word.startswith("MIG-") and gpu.is_divided)
    )


def _gpu(index: int, gpu: Element) -> Gpu:
    volatile = gpu.find("ecc_errors/volatile")
    errors = [] if volatile is None else [e for e in volatile if "uncorrectable" in e.tag]
    # in older drivers, and on GPUs before Ampere, one level deeper and called double_bit
    old = gpu.findtext("ecc_errors/volatile/double_bit/total", "")
    return Gpu(
        index=index,
        name=gpu.findtext("product_name", ""),
        uuid=gpu.findtext("uuid", ""),
        bus=gpu.findtext("pci/pci_bus_id", "") or gpu.get("id", ""),
        memory_mib=_number(gpu.findtext("fb_memory_usage/total", "")),
        used_mib=_number(gpu.findtext("fb_memory_usage/used", "")),
        uncorrected=sum(_number(e.text or "") for e in errors) + _number(old),
        faults=tuple(_faults(gpu)),
        slowed=tuple(_slowed(gpu)),
        is_divided=gpu.findtext("mig_mode/current_mig", "") == "Enabled",
    )


def _faults(gpu: Element) -> list[str]:
    """List the persistent faults.

    Sources: NVIDIA's "GPU Memory Error Management" (row remaps), the fabric manager's
    user guide (a GPU behind NVSwitch computes only once its fabric state is Completed), and
    nvidia-smi's manual (GPU Recovery Action).
    """
    found = []
    if gpu.findtext("remapped_rows/remapped_row_pending", "") == "Yes":
        found.append("a row remap is pending: reset the GPU")
    if gpu.findtext("remapped_rows/remapped_row_failure", "") == "Yes":
        found.append("a row remap has failed: replace the GPU")
    if gpu.findtext("retired_pages/pending_retirement", "") == "Yes":
        found.append("a page retirement is pending: reset the GPU")
    if gpu.findtext("ecc_errors/aggregate/sram_threshold_exceeded", "") == "Yes":
        found.append("SRAM errors exceed their threshold: replace the GPU")
    fabric = gpu.findtext("fabric/state", "")
    if fabric not in ("", "N/A", "Completed"):
        found.append(f"its NVSwitch fabric is {fabric!r}: check nvidia-fabricmanager")
    action = gpu.findtext("gpu_recovery_action", "")
    if action not in _NO_ACTION:
        found.append(f"the driver requests: {action}")
    return found


def _slowed(gpu: Element) -> list[str]:
    reasons = [e for kind in ("event", "throttle") for e in gpu.findall(f"clocks_{kind}_reasons/*")]
    return [
        re.sub(r"^clocks_(event|throttle)_reason_", "", reason.tag).replace("_", " ")
        for reason in reasons
        if "_hw_" in reason.tag and reason.text == "Active"
    ]


def _number(text: str) -> int:
    """Return the leading number of a field; 0 for ``N/A``.

    >>> _number("143771 MiB"), _number("N/A")
    (143771, 0)
    """
    match = re.match(r"\d+", text)
    return int(match.group(0)) if match else 0
