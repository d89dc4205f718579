"""The language server that editors show YAML files with, over its standard input and output."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

ROOT = Path(__file__).parents[2]
SERVER = ROOT / ".tools" / "editor" / "node_modules" / ".bin" / "yaml-language-server"
SECONDS = 30.0
"""Time that the server has to answer."""


YAML = {"validate": True, "completion": True, "hover": True, "schemaStore": {"enable": False}}
"""Settings of the server; the schema store would be asked over the network."""


class Editor:
    """An editor with files of this checkout open, ended by ``async with``."""

    def __init__(self) -> None:
        """Prepare a client that keeps what the server says about each file."""
        self._client = LanguageClient("megatron-dpo-tests", "1")
        self._published: dict[str, asyncio.Future[list[types.Diagnostic]]] = {}

        @self._client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)  # type: ignore[untyped-decorator]
        def note(published: types.PublishDiagnosticsParams) -> None:
            waiting = self._published.get(published.uri)
            if waiting is not None and not waiting.done():
                waiting.set_result(list(published.diagnostics))

        @self._client.feature(types.WORKSPACE_CONFIGURATION)  # type: ignore[untyped-decorator]
        def settings(wanted: types.ConfigurationParams) -> list[dict[str, Any] | None]:
            return [YAML if item.section == "yaml" else None for item in wanted.items]

    async def __aenter__(self) -> Editor:
        await self._client.start_io(str(SERVER), "--stdio")
        workspace = types.WorkspaceFolder(uri=ROOT.as_uri(), name="megatron-dpo")
        abilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(
                completion=types.CompletionClientCapabilities(
                    completion_item=types.ClientCompletionItemOptions(snippet_support=False)
                )
            ),
            workspace=types.WorkspaceClientCapabilities(configuration=True),
        )
        start = types.InitializeParams(capabilities=abilities, workspace_folders=[workspace])
        await asyncio.wait_for(self._client.initialize_async(start), SECONDS)
        self._client.initialized(types.InitializedParams())
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wait_for(self._client.shutdown_async(None), SECONDS)
        self._client.exit(None)
        await self._client.stop()  # type: ignore[no-untyped-call]

    async def diagnostics(self, path: Path, text: str) -> list[str]:
        """Open a file with this text; return the server's complaints as ``line: message``.

        Args:
            path: of the file, from which its first line names the schema; need not exist.
            text: of the file.

        Raises:
            TimeoutError: the server has not answered.
        """
        uri = path.as_uri()
        published = self._published[uri] = asyncio.get_running_loop().create_future()
        item = types.TextDocumentItem(uri=uri, language_id="yaml", version=1, text=text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
        found = await asyncio.wait_for(published, SECONDS)
        return [f"{each.range.start.line + 1}: {each.message}" for each in found]

    async def complete(self, path: Path, text: str) -> dict[str, str]:
        """Return what the server offers at the end of a text: label to description."""
        await self.diagnostics(path, text)
        lines = text.split("\n")
        end = types.Position(line=len(lines) - 1, character=len(lines[-1]))
        document = types.TextDocumentIdentifier(uri=path.as_uri())
        wanted = types.CompletionParams(text_document=document, position=end)
        offers = self._client.text_document_completion_async(wanted)
        answer = await asyncio.wait_for(offers, SECONDS)
        items = answer.items if isinstance(answer, types.CompletionList) else answer or []
        return {item.label: _text(item.documentation) for item in items}

    async def hover(self, path: Path, text: str, word: str) -> str:
        """Return what the server says about the first occurrence of a word in a text."""
        await self.diagnostics(path, text)
        before = text[: text.index(word)].split("\n")
        position = types.Position(line=len(before) - 1, character=len(before[-1]) + 1)
        document = types.TextDocumentIdentifier(uri=path.as_uri())
        wanted = types.HoverParams(text_document=document, position=position)
        answer = await asyncio.wait_for(self._client.text_document_hover_async(wanted), SECONDS)
        return "" if answer is None else _text(answer.contents)


def _text(documentation: object) -> str:
    value = getattr(documentation, "value", documentation)
    return value if isinstance(value, str) else ""
