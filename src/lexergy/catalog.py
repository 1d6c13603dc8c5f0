"""The folder is the registry: a component is a file, its name the file's, its description the first line of its docstring.

`available` reads files without running them, so that listing a room imports nothing. Files that begin with an
underscore, and those in `SHARED` (what a room's components stand on), are no components.
"""

import ast
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from lexergy.core.errors import LexergyError, unknown

ROOMS = ("proposals", "energies", "objectives", "samplers", "estimators", "evaluation")
SHARED = {"base", "saved"}


def _folder(room: str) -> Path:
    if room not in ROOMS:
        raise unknown("room", room, ROOMS)
    # Looked up, not imported: the package's own file names every layer above this one.
    return Path(sys.modules["lexergy"].__path__[0]) / room


def available(room: str) -> dict[str, str]:
    """The components of a room by name, each with the first line of its page."""
    found = {}
    for file in sorted(_folder(room).glob("*.py")):
        if file.stem in SHARED or file.stem.startswith("_"):
            continue
        page = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        found[file.stem] = page.split("\n", 1)[0]
    return found


def module(room: str, name: str) -> ModuleType:
    """A component's file, imported."""
    if name not in available(room):
        raise unknown(f"name in {room}", name, available(room))
    return importlib.import_module(f"lexergy.{room}.{name}")


def load(room: str, name: str) -> Any:
    """A component: the one public class or function that its file defines besides `tiny`."""
    found = module(room, name)
    components = [
        value
        for key, value in vars(found).items()
        if not key.startswith("_")
        and key != "tiny"
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == found.__name__
    ]
    if len(components) != 1:
        names = ", ".join(component.__name__ for component in components) or "none"
        raise LexergyError(
            f"lexergy/{room}/{name}.py must define one public class or function besides tiny(); it defines {names}. Start the "
            "names of helpers with an underscore."
        )
    return components[0]


def tiny(room: str, name: str) -> Any:
    """A component built over the toy universe, by its own `tiny`."""
    found = module(room, name)
    build = vars(found).get("tiny")
    if build is None:
        raise LexergyError(
            f"lexergy/{room}/{name}.py has no tiny(): add the function that builds it over the toy universe."
        )
    return build()
