"""What ms-swift makes of the columns next to the messages: tools, objects, a margin, images."""

import ast
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from launchers.system import lookup

JSON_TEXTS = (4, 6, 0)
"""Release from which messages that are one text are read as JSON; before, as Python."""
_IMAGE_BYTES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")
"""First bytes of PNG, JPEG, GIF, WebP, BMP and TIFF."""


class Dropped(Exception):
    """ms-swift drops the row."""

    def __init__(self, id: str, why: str) -> None:
        """Keep the id of the refusal and the reason in words."""
        super().__init__(why)
        self.id = id


def check(row: Mapping[str, Any], release: tuple[int, ...]) -> None:
    """Drop a row for its objects, margin or tools, as ``_check_objects`` and the template do.

    Raises:
        Dropped: ms-swift drops the row.
    """
    objects, margin = row.get("objects"), row.get("margin")
    if objects is not None and not (isinstance(objects, Mapping) and "bbox" in objects):
        raise Dropped("dataset-objects", "objects that are not a map with bbox")
    try:
        float(0 if margin is None else margin)
    except (TypeError, ValueError):
        raise Dropped("dataset-margin", "a margin that is not a number") from None
    for name in ("tools", "rejected_tools"):
        tools, is_read = row.get(name), release >= JSON_TEXTS  # an empty text, too
        if (tools or (tools == "" and is_read)) and not _are_tools(tools, release):
            raise Dropped("dataset-tools", "tools that are not a list of maps")


def _are_tools(tools: Any, release: tuple[int, ...]) -> bool:
    """Return whether ``_preprocess_tools`` takes them."""
    found = parsed(tools) if isinstance(tools, str) else tools
    if not isinstance(found, list):
        return isinstance(found, Mapping) and (isinstance(tools, str) or release >= JSON_TEXTS)
    return all(isinstance(parsed(tool), Mapping) for tool in found)


def tools_of(given: Any) -> list[Any]:
    """Return the list that ``_preprocess_tools`` makes of tools, which may be JSON."""
    found = parsed(given) if isinstance(given, str) else given
    return [*map(parsed, [found] if isinstance(found, Mapping) else found)] if found else []


def parsed(text: Any) -> Any:
    """Return what ``_parse_json`` makes of a text."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def images(row: Mapping[str, Any], looks: bool) -> Iterable[tuple[str, str]]:
    """Yield id and words of what is wrong with the images that a row names."""
    given = row.get("images")
    if isinstance(given, bytes):
        yield "dataset-image", "bytes as images, where ms-swift reads maps of bytes and path"
        return
    listed = given if isinstance(given, list) else [] if given is None else [given]
    for each in [*listed, *_in_parts(row)]:
        place = each.get("path") if isinstance(each, Mapping) else each
        if isinstance(each, Mapping) and each.get("bytes"):
            if isinstance(each["bytes"], bytes) and not each["bytes"].startswith(_IMAGE_BYTES):
                yield "dataset-image", "an image whose bytes are of no known format"
        elif not place:
            yield "dataset-image", "an image without a path"
        elif not isinstance(place, str) or place.startswith(("http", "data:")) or len(place) >= 500:
            continue  # an address, or base64
        elif not looks:
            yield "dataset-image-unseen", "an image that is not looked at outside the pods"
        elif wrong := _wrong_image(place):
            yield "dataset-image", wrong


def _in_parts(row: Mapping[str, Any]) -> Iterable[object]:
    """Yield the images in parts of contents (``template_inputs.py``: ``remove_messages_media``)."""
    names = ("messages", "rejected_messages", "rejected_response")
    for turn in [each for name in names for each in _list(row.get(name))]:
        for part in _list(turn.get("content")) if isinstance(turn, Mapping) else ():
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind in ("image", "image_url") and (value := part.get(kind)):
                yield value.get("url") if isinstance(value, Mapping) else value


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _wrong_image(place: str) -> str:
    """Return what is wrong with an image's file, in the same words for all, which are counted."""
    folders = ("", os.environ.get("ROOT_IMAGE_DIR", ""))  # vision_utils.py: _check_path
    begins = [lookup.begin(Path(each, place), 8) for each in folders]
    found = begins[0] if begins[0] is not None else begins[1]
    if found is None:
        return "an image that does not exist here"
    return "" if found.startswith(_IMAGE_BYTES) else "an image whose file is not an image"
