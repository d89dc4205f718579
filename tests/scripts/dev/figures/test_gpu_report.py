"""Report pages of the committed GPU results."""

from scripts.dev.figures import gpu_report


def test_the_committed_pages_are_those_of_the_results() -> None:
    assert gpu_report.PAGES
    for name in gpu_report.PAGES:
        committed = (gpu_report.FOLDER / f"{name}.html").read_text()
        assert gpu_report.render(name) == committed, "run `make figures`"


def test_the_page_has_the_figures_of_the_result() -> None:
    page = gpu_report.render("bench-4gpu-split")
    assert "with patches" in page and "without patches" in page
    assert "3,122,993" in page  # tokens of all steps, in the result's each_step
    assert "2.16.1" in page


def test_the_picture_exists() -> None:
    assert gpu_report.PICTURE.read_bytes().startswith(b"\x89PNG")
    assert gpu_report.PICTURE.stat().st_size < 200_000
