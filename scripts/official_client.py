"""Import parts of the official Kubernetes client, without those that no verb uses.

`import kubernetes` imports dynamic clients, informers and a JSON schema validator, too, and the
reader of kubeconfigs imports an OAuth client, which only users of `auth-provider: oidc` need.
Together they take half of the time that the client takes to import.
"""

import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import util
from types import ModuleType
from typing import Any

CLIENT = "kubernetes"
CONFIG = f"{CLIENT}.config"
SESSION, OAUTH = "requests_oauthlib", "oauthlib"


def part(name: str) -> Any:
    """Return a module of the client; the others are imported when their names are used.

    >>> part("utils.quantity").parse_quantity("500m")
    Decimal('0.500')

    Raises:
        ImportError: the client is not installed.
    """
    _add_package()
    full = f"{CLIENT}.{name}"
    if full in sys.modules or not full.startswith(CONFIG):
        return importlib.import_module(full)
    with _without_oauth():
        return importlib.import_module(full)


def _add_package() -> None:
    """Make the client's modules importable without its `__init__`, which imports all of them."""
    if CLIENT in sys.modules:
        return
    spec = util.find_spec(CLIENT)
    if spec is None:
        return  # the import of a module says so
    package = util.module_from_spec(spec)
    package.__getattr__ = partial(_submodule, CLIENT)  # type: ignore[method-assign]  # PEP 562
    sys.modules[CLIENT] = package


def _submodule(package: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        raise AttributeError(str(error)) from None


@contextmanager
def errors() -> Iterator[list[str]]:
    """Collect the errors that the client only logs, such as of a login program that fails."""
    found: list[str] = []
    collect = logging.Handler(logging.ERROR)
    collect.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(collect)
    try:
        yield found
    finally:
        root.removeHandler(collect)


@contextmanager
def _without_oauth() -> Iterator[None]:
    """Give the importers within it stand-ins for the modules of OAuth, imported when used."""

    def session(*words: Any, **options: Any) -> Any:
        return importlib.import_module(SESSION).OAuth2Session(*words, **options)

    package = ModuleType(OAUTH)
    made = {SESSION: ModuleType(SESSION), OAUTH: package, f"{OAUTH}.oauth2": ModuleType(OAUTH)}
    vars(made[SESSION])["OAuth2Session"] = session
    vars(package).update(__path__=[], __getattr__=partial(_submodule, OAUTH))
    used = {name: module for name, module in made.items() if name not in sys.modules}
    sys.modules.update(used)
    try:
        yield
    finally:
        for name in used:
            del sys.modules[name]
        vars(package).pop("oauth2", None)  # the real one, when it is used
