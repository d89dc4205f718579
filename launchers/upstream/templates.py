"""Models and templates that ms-swift knows: ``templates.json``, by ``scripts/dev/templates.py``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_KNOWN: Mapping[str, Any] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
TYPES: Mapping[str, Sequence[str]] = _KNOWN["types"]
"""Architecture of config.json to its model types in ms-swift."""
TEMPLATES: Mapping[str, Sequence[str]] = _KNOWN["templates"]
"""Model type to its templates, where ms-swift chooses among them by the model's name."""
UNPACKED: Sequence[str] = _KNOWN["unpacked"]
"""Templates for which ms-swift refuses packing and padding_free."""
UNPACKED_ARCHITECTURES = frozenset[str](_KNOWN["unpacked_architectures"])
"""Architectures all of whose templates are ``UNPACKED``."""
NOT_ON_MEGATRON = frozenset[str](_KNOWN["not_on_megatron"])
"""Architectures none of whose model types mcore-bridge has, in any of the releases."""
