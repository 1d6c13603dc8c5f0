"""`lexergy cite METHOD`: whom to cite, as sentences and as BibTeX.

A component's page names its paper, a recipe's first lines name theirs: they are read, so that a new file needs no
entry here.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.output import write, write_json

if TYPE_CHECKING:
    from lexergy.cli.citations import Citation


def cite(
    method: Annotated[
        str, typer.Argument(help="A component (energies/bag, nce), a recipe, or: residual, electric, thesis.")
    ],
    json: Json = False,
) -> None:
    """Say whom to cite for a method: sentences, then BibTeX."""
    found = citations(method)
    if json:
        cited = [{"key": one.key, "text": one.text, "bibtex": one.bibtex} for one in found]
        write_json({"method": method, "citations": cited})
        return
    for one in found:
        write(one.text.replace("{", "").replace("}", ""))
    for one in found:
        write("\n" + one.bibtex)


def citations(method: str) -> "list[Citation]":
    """The works behind a method, ending with this software."""
    from lexergy.cli.citations import NAMED, PHRASES, SOFTWARE
    from lexergy.core.errors import unknown

    pages = _pages()
    asked = [text for name, text in pages.items() if method in (name, name.rpartition("/")[2])]
    if not asked and method not in NAMED:
        raise unknown("method", method, {*NAMED, *pages, *(name.rpartition("/")[2] for name in pages)})
    found = list(NAMED.get(method, ()))
    for text in asked:
        words = " ".join(text.lower().split())
        found += [work for phrase, works in PHRASES.items() if phrase in words for work in works]
    return [*dict.fromkeys(found), SOFTWARE]


def _pages() -> dict[str, str]:
    """What every component and recipe says of itself, by name."""
    import ast
    from pathlib import Path

    import lexergy
    from lexergy import catalog

    root = Path(lexergy.__path__[0])
    components = {
        f"{room}/{name}": ast.get_docstring(ast.parse((root / room / f"{name}.py").read_text(encoding="utf-8"))) or ""
        for room in catalog.ROOMS
        for name in catalog.available(room)
    }
    recipes = {
        file.relative_to(root / "recipes").with_suffix("").as_posix(): file.read_text(encoding="utf-8")
        for file in sorted((root / "recipes").rglob("*.toml"))
    }
    return components | recipes
