"""`lexergy list`: what there is. The folder is the registry, so that a new file appears here by itself."""

from typing import Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.output import one_line, write, write_json

RECIPES = "recipes"


def list_(
    room: Annotated[
        str | None, typer.Argument(help="energies, proposals, … or recipes; default: the rooms.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Say what there is: the rooms, what a room holds, or the recipes."""
    found = _rooms() if room is None else _inside(room)
    if json:
        write_json(found if room is None else {room: found})
        return
    width = max((len(name) for name in found), default=0)
    for name, about in found.items():
        said = ", ".join(about) if isinstance(about, dict) else about
        write(f"{name:{width}}  {one_line(said, used=width + 2)}")


def _rooms() -> dict[str, dict[str, str]]:
    from lexergy import catalog

    return {room: _inside(room) for room in (*catalog.ROOMS, RECIPES)}


def _inside(room: str) -> dict[str, str]:
    from lexergy import catalog
    from lexergy.core.errors import unknown

    if room == RECIPES:
        from lexergy.recipe import recipes

        return recipes()
    if room not in catalog.ROOMS:
        raise unknown("room", room, (*catalog.ROOMS, RECIPES))
    return catalog.available(room)
