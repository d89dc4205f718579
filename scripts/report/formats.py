"""Kinds of document that `megatron-dpo report` writes; in a module that imports nothing slow."""

from enum import StrEnum


class Format(StrEnum):
    """Format of the report."""

    HTML = "html"
    MARKDOWN = "md"
    JSON = "json"
