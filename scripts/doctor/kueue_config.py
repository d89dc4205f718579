"""What of Kueue's configuration decides which resources need a quota."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal

import yaml

from scripts.doctor.answer import Answer, Object

KEY = "controller_manager_config.yaml"


@dataclass(frozen=True, kw_only=True)
class Config:
    """`resources` of Kueue's Configuration (config.kueue.x-k8s.io)."""

    known: bool = False
    """Whether it could be read; the rest is Kueue's default otherwise."""
    excluded: tuple[str, ...] = ()
    """excludeResourcePrefixes."""
    ignores_undeclared: bool = False
    """quotaCheckStrategy: IgnoreUndeclared."""
    transformed: frozenset[str] = frozenset()
    """Inputs of `transformations`; what becomes of them is not computed here."""

    def counted(self, total: Mapping[str, Decimal], covered: Collection[str]) -> dict[str, Decimal]:
        """The resources that need a quota.

        >>> Config(excluded=("rdma/",)).counted({"rdma/x": Decimal(1)}, [])
        {}
        """
        return {
            name: amount
            for name, amount in total.items()
            if amount
            and not name.startswith(self.excluded)
            and name not in self.transformed
            and (name in covered or not self.ignores_undeclared)
        }


def read(answer: Answer) -> Config:
    """The configuration of a ConfigMap, or the defaults."""
    text = (answer.content.get("data") or {}).get(KEY) if answer.found else None
    try:
        content = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return Config()
    if not isinstance(content, dict):
        return Config()
    resources: Object = content.get("resources") or {}
    return Config(
        known=True,
        excluded=tuple(resources.get("excludeResourcePrefixes") or ()),
        ignores_undeclared=resources.get("quotaCheckStrategy") == "IgnoreUndeclared",
        transformed=frozenset(each["input"] for each in resources.get("transformations") or []),
    )
