"""`megatron-dpo report`: the files of runs as one page, Markdown or JSON.

`reading` fills a `RunRecord` from a run's folder; everything after it is pure. `page` writes HTML
that needs no network, `markdown` a table for a pull request, `document` versioned JSON.
"""

from typing import Literal

Format = Literal["html", "md", "json"]
"""Kinds of document; here, since a command's help imports nothing slow."""
