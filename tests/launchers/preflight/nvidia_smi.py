"""A fake nvidia-smi: its XML output, and a program that prints it."""

from collections.abc import Sequence
from pathlib import Path

H200 = "NVIDIA H200"
COUNTERS = ("sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable")
FAULTS = ("sram_threshold_exceeded", "remapped_row_pending", "remapped_row_failure")


def gpu(index: int, **change: str) -> str:
    """Return the XML of one GPU; ``change`` replaces the text of a tag."""
    fields = {"product_name": H200, "fabric_state": "Completed", "gpu_recovery_action": "None"}
    fields |= {
        "current_mig": "Disabled",
        "hw_thermal_slowdown": "Not Active",
        "total": "143771 MiB",
        "used": "0 MiB",
    }
    fields |= dict.fromkeys(COUNTERS, "0") | dict.fromkeys(FAULTS, "No") | change
    return """
    <gpu id="00000000:{bus}:00.0">
      <product_name>{product_name}</product_name><uuid>GPU-{index}</uuid>
      <pci><pci_bus_id>00000000:{bus}:00.0</pci_bus_id></pci>
      <fabric><state>{fabric_state}</state></fabric>
      <mig_mode><current_mig>{current_mig}</current_mig></mig_mode>
      <gpu_recovery_action>{gpu_recovery_action}</gpu_recovery_action>
      <clocks_event_reasons>
        <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
        <clocks_event_reason_hw_thermal_slowdown>{hw_thermal_slowdown}</clocks_event_reason_hw_thermal_slowdown>
      </clocks_event_reasons>
      <fb_memory_usage><total>{total}</total><used>{used}</used></fb_memory_usage>
      <ecc_errors>
        <volatile>
          <sram_correctable>3</sram_correctable>
          <sram_uncorrectable_parity>{sram_uncorrectable_parity}</sram_uncorrectable_parity>
          <sram_uncorrectable_secded>{sram_uncorrectable_secded}</sram_uncorrectable_secded>
          <dram_correctable>2</dram_correctable>
          <dram_uncorrectable>{dram_uncorrectable}</dram_uncorrectable>
        </volatile>
        <aggregate>
          <dram_uncorrectable>9</dram_uncorrectable>
          <sram_threshold_exceeded>{sram_threshold_exceeded}</sram_threshold_exceeded>
        </aggregate>
      </ecc_errors>
      <retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>
      <remapped_rows>
        <remapped_row_pending>{remapped_row_pending}</remapped_row_pending>
        <remapped_row_failure>{remapped_row_failure}</remapped_row_failure>
      </remapped_rows>
    </gpu>""".format(index=index, bus=f"{index + 16:02X}", **fields)  # noqa: UP032


def answer(gpus: Sequence[str], *, driver: str = "580.159.04", cuda: str = "13.0") -> str:

    versions = f"<driver_version>{driver}</driver_version><cuda_version>{cuda}</cuda_version>"
    return f"<nvidia_smi_log>{versions}{''.join(gpus)}</nvidia_smi_log>"


def install(folder: Path, text: str, *, script: str = "") -> str:
    """Write a program ``nvidia-smi`` that prints ``text`` or runs ``script``.

    Returns:
        The folder, for PATH.
    """
    folder.mkdir(exist_ok=True)
    (folder / "answer.xml").write_text(text)
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script or f'cat {folder}/answer.xml'}\n")
    program.chmod(0o755)
    return str(folder)
