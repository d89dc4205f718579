"""What was read of an export's files before they became its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launchers.rehearsal import early_read
from launchers.storage import manifest
from scripts.helm import ROOT
from tests.launchers import model_folder

NAN, ONE = b"\xc0\x7f", b"\x80\x3f"
AGAIN = """
import sys; from pathlib import Path; from launchers.rehearsal import early_read, load_export
home, export = map(Path, sys.argv[1:])
print(load_export.not_finite(export, early_read.noted(home).not_finite))
"""


def test_what_was_read_early_counts_for_files_that_are_the_same(tmp_path: Path) -> None:
    saved, export = tmp_path / "saved", tmp_path / "export"
    for folder in (saved, export):
        folder.mkdir()

    def write(name: str, value: bytes) -> Path:
        path = saved / f"{name}.safetensors"
        model_folder.write_weights(path, {name: value * model_folder.HIDDEN})
        return path

    def run(*words: object) -> str:
        command = [sys.executable, *map(str, words)]
        env = {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    for name, value in {"same": ONE, "planted": NAN, "touched": ONE, "repaired": NAN}.items():
        path = write(name, value)
        os.link(path, export / path.name)
    note = tmp_path / early_read.NAME
    note.write_text('{"file": [1, 2\n{}\n')  # torn, and another's
    run("-m", early_read.__name__, note, saved)
    read = manifest.digest_folder(export)
    assert manifest.digest_folder(export, known=early_read.noted(tmp_path).digests) == read

    at = (saved / "same.safetensors").stat()
    os.utime(write("same", NAN), ns=(at.st_atime_ns, at.st_mtime_ns))  # so it is not read
    write("touched", NAN)
    write("repaired", ONE)
    found = manifest.digest_folder(export, known=early_read.noted(tmp_path).digests)
    changed = {name for name in read if found[name] != read[name]}
    assert changed == {"touched.safetensors", "repaired.safetensors"}
    wrong = run("-c", AGAIN, tmp_path, export)
    assert wrong == "['2 tensors hold NaN or Inf: planted, touched']\n"


@pytest.mark.parametrize(
    ("kind", "finite", "other"),
    [
        ("F64", "ffffffffffffef7f ffffffffffffefff", "000000000000f07f 000000000000f0ff"),
        ("F32", "ffff7f7f ffff7fff", "0000807f 000080ff 0100807f"),
        ("F16", "ff7b fffb", "007c 00fc 01fe"),
        ("BF16", "7f7f 7fff", "807f 80ff c0ff"),
        ("F8_E5M2", "7b fb", "7c fc ff"),
        ("F8_E4M3", "7e fe", "7f ff"),
        ("F8_E8M0", "7f fe", "ff"),
        ("I16", "807f 80ff", ""),
    ],
)
def test_nan_and_inf_are_found_by_their_bits_wherever_they_are(
    kind: str, finite: str, other: str, tmp_path: Path
) -> None:
    path, fill = tmp_path / "a.safetensors", bytes(early_read.PART_BYTES)
    for text in [*finite.split(), *other.split()]:
        number = bytes.fromhex(text)
        count, end = len(fill) // len(number) + 1, len(fill) + len(number)
        header = json.dumps({"a": {"dtype": kind, "shape": [count], "data_offsets": [0, end]}})
        start = len(header).to_bytes(8, "little") + header.encode()
        for data in (number + fill, fill + number):
            path.write_bytes(start + data)
            assert early_read.not_finite(path) == ["a"] * (text in other.split())
