"""Report pages of the committed GPU results."""

import struct

from scripts.dev.figures import gpu_report, pictures


def test_the_committed_pages_are_those_of_the_results() -> None:
    assert gpu_report.PAGES
    for name in gpu_report.PAGES:
        committed = (pictures.FOLDER / f"{name}.html").read_text()
        assert gpu_report.render(name) == committed, "run `make figures`"


def test_the_page_has_the_figures_of_the_result() -> None:
    page = gpu_report.render("bench-4gpu-split")
    tokens = "3,122,993"  # of all steps, in the result's each_step
    assert all(word in page for word in ("with patches", "without patches", tokens, "2.16.1"))


def test_the_pictures_are_those_that_are_committed_with_their_sizes() -> None:
    committed = {each.stem for each in pictures.FOLDER.glob("*.png")}
    assert committed == set(pictures.PICTURES)
    for name, wanted in pictures.PICTURES.items():
        content = (pictures.FOLDER / f"{name}.png").read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) < 200_000
        assert struct.unpack(">II", content[16:24]) == (wanted.width, wanted.height)
        assert (pictures.FOLDER / f"{wanted.page}.html").is_file()
