"""Answers and faults of the hubs, through their real clients."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from huggingface_hub.errors import HfHubHTTPError
from modelscope_hub.errors import NotExistError

from launchers.config.sources import parse_source
from launchers.config.workspace import Workspace
from launchers.exits import Exit, LaunchError
from launchers.hub import huggingface
from launchers.hub.client import UNKNOWN, HubFile, Listing
from launchers.hub.fetch import select_files
from launchers.hub.modelscope import ModelScope
from launchers.storage import disk
from tests.launchers.fake_hub import FakeHub, Fault
from tests.launchers.sources import CANARY, CONFIG, MODEL, get, model_at, refused, tree

HUBS = pytest.mark.parametrize("model", ["hf://o/m@main", "ms://o/m@master"])


@HUBS
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *(("model.safetensors", fault) for fault in ("500", "429", "cut", "wrong")),
        ("config.json", "wrong"),
    ],
)
def test_a_hub_that_stumbles_or_sends_a_wrong_digest_is_tried_again(
    model: str, name: str, fault: Fault, hub: FakeHub, work: Workspace
) -> None:
    hub.faults = {name: [fault]}
    assert get(model, work)[0].state == "done"
    assert tree(model_at(model, work)) == MODEL


@HUBS
def test_a_body_that_was_cut_off_is_gone_on_with(
    model: str, hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the client writes whole chunks only, of 10 MB
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10_000)
    hub.faults = {"model.safetensors": ["cut"]}
    get(model, work)
    ranges = hub.gets("model.safetensors")
    assert ranges[-1].startswith("bytes=")
    assert int(ranges[-1].removeprefix("bytes=").partition("-")[0]) > 0


@HUBS
@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_digest_that_stays_wrong_ends_in_an_io_error(
    model: str, name: str, hub: FakeHub, work: Workspace
) -> None:
    hub.faults = {name: ["wrong"] * 9}
    assert refused(model, work).code == Exit.IO
    assert not model_at(model, work).exists()


@HUBS
@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_wrong_token_is_an_auth_error_that_names_the_secret(
    model: str, token: str, hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = CANARY
    for name in ("HF_TOKEN", "MODELSCOPE_API_TOKEN") if token else ():
        monkeypatch.setenv(name, token)
    error = refused(model, work)
    assert error.code == Exit.AUTH
    secret = "hf" if model.startswith("hf") else "modelscope"
    assert f"secrets.{secret}.existingSecret" in error.remedy
    assert len(hub.seen) < 4, "an auth error is not tried again"


@HUBS
def test_the_right_token_opens_a_private_model_and_is_nowhere_to_be_seen(
    model: str,
    hub: FakeHub,
    work: Workspace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    hub.token = CANARY
    monkeypatch.setenv("HF_TOKEN", CANARY)
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", CANARY)
    assert get(model, work)[0].state == "done"
    assert CANARY not in caplog.text
    assert not any(CANARY.encode() in content for content in tree(work.root).values())


def test_what_the_hub_does_not_have_is_a_missing_input(hub: FakeHub, work: Workspace) -> None:
    for model in ("hf://o/m@main/sab", "ms://o/m@no"):
        error = refused(model, work)
        assert error.code == Exit.INPUT_MISSING and model in error.cause
    error = refused("hf://o/m@main", work, "hf://o/d@main/data/pears.jsonl")
    assert (error.code, error.remedy) == (Exit.INPUT_MISSING, "did you mean data/pairs.jsonl?")


@HUBS
def test_a_hub_that_is_down_is_unavailable(
    model: str, hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("modelscope_hub._legacy_api.REPO_TREE_PAGE_MAX_ATTEMPTS", 1)
    assert refused(model, work).code == Exit.UNAVAILABLE


def test_a_full_disk_is_said_before_the_first_byte(
    hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000, "total": 1001})
    monkeypatch.setattr("launchers.storage.disk.shutil.disk_usage", lambda _: usage)
    assert refused("hf://o/m@main", work).code == Exit.QUOTA
    assert hub.gets("model.safetensors") == []


def test_a_second_copy_of_the_weights_is_left_out(hub: FakeHub, work: Workspace) -> None:
    hub.repos["models/o/m"] |= {"pytorch_model.bin": b"x" * 200, "m.gguf": b"y" * 200}
    get("hf://o/m@main", work)
    assert tree(model_at("hf://o/m@main", work)) == MODEL


INDEX = "model.safetensors.index.json"


@HUBS
def test_of_a_model_with_an_index_only_the_weights_that_it_names_are_fetched(
    model: str, hub: FakeHub, work: Workspace
) -> None:
    named = {"weight_map": {"a": "odd-1.safetensors", "b": "model.safetensors"}}
    kept = MODEL | {"odd-1.safetensors": b"o" * 200, INDEX: json.dumps(named).encode()}
    copies = {"original/model.safetensors": b"c" * 200, "consolidated.safetensors": b"c" * 200}
    hub.repos["models/o/m"] = kept | copies
    get(model, work)
    assert tree(model_at(model, work)) == kept
    assert not [line for line in hub.seen if "original/" in line or "consolidated" in line]


def test_the_space_is_judged_by_what_the_index_names(
    hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = json.dumps({"weight_map": {"a": "model.safetensors"}}).encode()
    hub.repos["models/o/m"] |= {INDEX: index, "original/a.safetensors": bytes(10**6)}
    wanted = list[int]()
    monkeypatch.setattr(disk, "require_space", lambda place, size: wanted.append(size))
    get("hf://o/m@main", work)
    whole = sum(map(len, MODEL.values()))
    assert whole - 1000 < wanted[0] <= whole  # less what the index and the client's notes take


def test_an_index_whose_files_the_repository_lacks_is_refused_before_the_download(
    hub: FakeHub, work: Workspace
) -> None:
    index = json.dumps({"weight_map": {"a": "model.safetensors", "b": "two.safetensors"}})
    hub.repos["models/o/m"][INDEX] = index.encode()
    error = refused("hf://o/m@main", work)
    assert (error.code, error.id) == (Exit.DATA, "hub-index")
    assert "two.safetensors" in error.cause and not hub.gets("model.safetensors")


@pytest.mark.parametrize("text", [b"{", b"[]", b"{}"])
def test_a_file_that_is_no_index_leaves_nothing_out(
    hub: FakeHub, work: Workspace, text: bytes
) -> None:
    hub.repos["models/o/m"] |= {INDEX: text, "b.safetensors": b"b" * 200}
    get("hf://o/m@main", work)
    assert {"b.safetensors", "model.safetensors"} <= tree(model_at("hf://o/m@main", work)).keys()


def test_a_mirror_that_lists_no_sizes_is_downloaded_from(
    hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(sibling: Any) -> HubFile:
        return replace(known(sibling), size=UNKNOWN)

    known = huggingface._file
    monkeypatch.setattr(huggingface, "_file", of)
    get("hf://o/m@main", work)
    assert tree(model_at("hf://o/m@main", work)) == MODEL
    sized = SimpleNamespace(rfilename="a", size=None, lfs=None, blob_id=None)
    assert known(sized).size == UNKNOWN


def answered(status: int, host: str, html: str | None = None) -> Exception:
    url = f"https://{host}/x"
    response = httpx.Response(status, request=httpx.Request("GET", url), html=html)
    return HfHubHTTPError(f"{status} for {url}", response=response)


@pytest.mark.parametrize(
    ("error", "code", "is_transient"),
    [
        (answered(403, "huggingface.co"), Exit.AUTH, False),
        (answered(403, "huggingface.co", "<h1>Blocked</h1>"), Exit.UNAVAILABLE, True),
        (answered(403, "cas-bridge.xethub.hf.co"), Exit.UNAVAILABLE, True),
        (answered(404, "cdn-lfs.hf.co"), Exit.UNAVAILABLE, True),
        (answered(404, "huggingface.co"), Exit.UNAVAILABLE, True),
        (json.JSONDecodeError("a proxy's page", "<html>", 0), Exit.UNAVAILABLE, True),
        (RuntimeError("I/O error: Stale file handle (os error 116)"), Exit.IO, False),
        (RuntimeError("endpoint is not connected (os error 107)"), Exit.UNAVAILABLE, True),
    ],
)
def test_what_stands_between_hub_and_disk_is_no_answer_of_the_hub(
    error: Exception, code: Exit, is_transient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://huggingface.co")
    client = huggingface.HuggingFace(parse_source("hf://o/m@main", "recipe.model"), "model")
    found = client.translate(error)
    assert found is not None and (found.error.code, found.transient) == (code, is_transient)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, {"Code": 10010205001}, Exit.INPUT_MISSING),
        (404, "<html>", Exit.UNAVAILABLE),
        (403, {"Code": 1}, Exit.AUTH),
        (403, "Blocked", Exit.UNAVAILABLE),
    ],
)
def test_a_proxys_refusal_is_no_answer_of_modelscope(status: int, body: object, code: Exit) -> None:
    client = ModelScope(parse_source("ms://o/m@main", "recipe.model"), "model")
    found = client.translate(NotExistError("", status_code=status, response_body=body))
    assert found is not None and found.error.code == code
    assert found.transient == (code == Exit.UNAVAILABLE)


def test_no_list_of_files_is_no_empty_one(
    hub: FakeHub, work: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(sha="c", siblings=None)
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: found)
    assert refused("hf://o/m@main", work).code == Exit.UNAVAILABLE


def listed(*names: str) -> Listing:
    files = (HubFile(path=name, size=1, digest="", digest_type="none") for name in names)
    return Listing(commit="", files=tuple(files))


def test_a_model_without_safetensors_and_a_dataset_keep_every_file() -> None:
    source, found = parse_source("hf://o/m@main", "recipe.model"), listed("a.bin", "config.json")
    assert select_files(found, source, "model") == found.files
    source = parse_source("hf://o/d@main", "recipe.dataset[0]")
    found = listed("a.bin", "b.safetensors")
    assert select_files(found, source, "dataset") == found.files


def test_only_the_corrupt_file_of_a_model_is_fetched_again(hub: FakeHub, work: Workspace) -> None:
    get("hf://o/m@main", work)
    (model_at("hf://o/m@main", work) / "config.json").write_bytes(CONFIG[::-1])
    before = len(hub.gets("model.safetensors"))
    assert get("hf://o/m@main", work)[0].state == "done"
    assert tree(model_at("hf://o/m@main", work)) == MODEL
    assert len(hub.gets("model.safetensors")) == before


OUTSIDE = ["../../../runs/dpo-7/export/model.safetensors", "sub/../../x", "./x", "sub//x", "/etc/x"]
OUTSIDE += ["", "..\\x", "C:/x", "c:x", "a\nb", "\ud800", "config.json/x"]


@pytest.mark.parametrize("hub_name", ["hf", "ms"])
@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_is_no_path_below_the_repository_is_refused(
    hub_name: str, name: str, hub: FakeHub, work: Workspace
) -> None:
    victim = work.root / "runs" / "dpo-7" / "export" / "model.safetensors"
    victim.parent.mkdir(parents=True)
    victim.write_text("weights of another run")
    hub.repos["models/o/m"][name] = b"evil"
    revision = "main" if hub_name == "hf" else "master"
    with pytest.raises(LaunchError) as caught:
        get(f"{hub_name}://o/m@{revision}", work)
    assert (caught.value.id, caught.value.code) == ("hub-file-name", Exit.DATA)
    assert victim.read_text() == "weights of another run"
    assert not [get for get in hub.seen if "resolve" in get or "FilePath" in get]


def test_a_listing_that_holds_nul_or_one_name_twice_is_refused() -> None:
    for names in (["a\0b"], ["a", "a"]):
        with pytest.raises(LaunchError) as caught:
            listed(*names)
        assert caught.value.id == "hub-file-name"


def test_ordinary_names_of_repositories_are_accepted() -> None:
    names = ("a b/数据 1.jsonl", ".gitattributes", "..data/x", "a/...", "xy:z", "a.partial", "é")
    assert tuple(file.path for file in listed(*names).files) == names


@pytest.mark.parametrize("link", ["sub", ""])
def test_a_link_out_of_the_download_is_not_followed(
    link: str, hub: FakeHub, work: Workspace, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("tokenizer.json", "config.json"):
        (elsewhere / name).write_text("the user's")
    get("hf://o/m@main", work)
    model = model_at("hf://o/m@main", work)
    shutil.rmtree(model / link)
    (model / link).symlink_to(elsewhere)
    with pytest.raises(LaunchError) as caught:
        get("hf://o/m@main", work)
    assert (caught.value.id, caught.value.code) == ("output-link", Exit.CONFIG)
    assert {path.read_text() for path in elsewhere.iterdir()} == {"the user's"}


@pytest.mark.parametrize("name", [".complete.json", ".making.json", ".repository"])
def test_a_source_with_a_name_of_the_launcher_is_refused(
    name: str, hub: FakeHub, work: Workspace
) -> None:
    hub.repos["datasets/o/d"] |= {name: b"{}"}
    error = refused("hf://o/m@main", work, f"hf://o/d@main/{name}")
    assert (error.id, error.code) == ("source-own-name", Exit.CONFIG)
