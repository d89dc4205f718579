import threading
from pathlib import Path

import pytest

from launchers.run import prefetch
from launchers.run.prefetch import prefetching, weights
from tests.launchers.waiting import eventually

ONE, TWO = "model-00001.safetensors", "model-00002.safetensors"


def test_what_training_reads_is_asked_for_in_its_order(tmp_path: Path) -> None:
    for name in (TWO, ONE, "config.json"):
        (tmp_path / name).touch()
    assert [p.name for p in weights(tmp_path)] == [ONE, TWO]
    (tmp_path / "iter_0000005").mkdir()
    (tmp_path / "iter_0000005" / "__0_0.distcp").touch()
    assert [p.name for p in weights(tmp_path)] == ["__0_0.distcp"]


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.5, [(ONE, 2), (TWO, 1)]), (0.0, [])], ids=["all", "no memory"]
)
def test_weights_are_asked_for_where_the_node_has_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, wanted: list[tuple[str, int]]
) -> None:
    seen: list[tuple[str, int]] = []
    done = threading.Event()
    monkeypatch.setattr(prefetch, "MEMORY_SHARE", share)
    monkeypatch.setattr(prefetch, "_request", lambda path, size, _: seen.append((path.name, size)))
    monkeypatch.setattr("launchers.logs.info", lambda *_, **__: done.set())
    (tmp_path / ONE).write_bytes(b"12")
    (tmp_path / TWO).write_bytes(b"3")
    with prefetching([tmp_path]):
        assert done.wait(10)
    assert seen == wanted


def test_the_file_is_asked_for_in_pieces_until_training_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[int] = []
    ended = threading.Event()

    def advise(handle: int, start: int, length: int, advice: int) -> None:
        pieces.append(start)
        if start == 2 * prefetch.REQUEST_BYTES:
            ended.set()

    monkeypatch.setattr("os.posix_fadvise", advise)
    (tmp_path / "w").touch()
    prefetch._request(tmp_path / "w", 9 * prefetch.REQUEST_BYTES, ended)
    assert pieces == [0, prefetch.REQUEST_BYTES, 2 * prefetch.REQUEST_BYTES]


def test_a_folder_that_is_gone_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.safetensors").symlink_to(tmp_path / "nowhere")
    with prefetching([tmp_path]):
        assert eventually(lambda: "weights not requested" in caplog.text)
