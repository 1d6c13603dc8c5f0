"""`lexergy report RUN`: a run's report.html and report.md, made again from its report.json."""

from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.output import write, write_json


def report(
    run: Annotated[Path, typer.Argument(help="A run's folder, or its report.json.")],
    json: Json = False,
) -> None:
    """Make the pages of a run's report again from its numbers."""
    from lexergy.report.store import load, save

    place = _place(run)
    page = save(load(place), place.parent)
    if json:
        write_json({"html": str(page), "markdown": str(page.with_suffix(".md")), "json": str(place)})
    else:
        write(str(page))


def _place(run: Path) -> Path:
    """Where the numbers are: the file itself, in the folder, or in the report folder of the run."""
    from lexergy.core.errors import LexergyError

    if run.is_file():
        return run
    for found in (run / "report.json", run / "report" / "report.json"):
        if found.is_file():
            return found
    raise LexergyError(
        f"There is no report.json in {run}. Give the folder of a finished run, as lexergy train and evaluate write."
    )
