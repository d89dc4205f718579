"""Pictures of the committed report."""

import struct

from scripts.dev.figures import pictures


def test_the_pictures_are_those_that_are_committed_with_their_sizes() -> None:
    committed = {each.stem for each in pictures.FOLDER.glob("*.png")}
    assert committed == set(pictures.PICTURES)
    for name, wanted in pictures.PICTURES.items():
        content = (pictures.FOLDER / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 200_000
        assert struct.unpack(">II", content[16:24]) == (wanted.width, wanted.height)
