"""What a verb writes: JSON or text on standard output, everything else on standard error.

JSON is strict: a number that is not finite is the string "Infinity", "-Infinity" or "NaN", which Python's
`float` and JavaScript's `Number` both read.
"""

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from lexergy.core.unicode import writable

PATIENCE: Final = 2.0
"""Seconds of work before a count is shown."""
PAUSE: Final = 10.0
"""Seconds between two counts."""

_ESCAPES: Final = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\r\t"
} | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""What would end a line, move a column or command a terminal. Texts come from files and from models."""


def write(text: str) -> None:
    """A line on standard output."""
    sys.stdout.write(text + "\n")


def write_json(value: Any) -> None:
    """One JSON value on a line of standard output."""
    write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def say(text: str) -> None:
    """A line on standard error."""
    typer.echo(text, err=True)


def flush() -> None:
    """Hand over what was written: whoever reads along need not wait for the end."""
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """A value made of mappings, sequences and plain values, as strict JSON holds it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, Mapping):
        return {plain(str(name)): plain(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    return value


def one_line(text: str, used: int = 0) -> str:
    """A text on one line, with what is not text escaped; on a terminal, cut to what is left of its width."""
    line = plain(text).translate(_ESCAPES)
    if not sys.stdout.isatty():
        return line
    room = max(20, shutil.get_terminal_size().columns - used)
    return line if len(line) <= room else line[: room - 1] + "…"


def number(value: float) -> str:
    """A number for a person: four places, for energies and log-probabilities alike."""
    return f"{value:.4f}"


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on standard output: the first column names, the others are numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    write(title)
    drawn = Table(box=None, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        drawn.add_column(Text(column), justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    # A pipe has no width: its lines are not to be folded at rich's eighty columns.
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(drawn)


class Counted:
    """How many are done, on standard error now and then, where the total is not known: a stream has no end."""

    def __init__(self, what: str) -> None:
        self._what, self._done = what, 0
        self._start = time.monotonic()
        self._next = self._start + PATIENCE

    def add(self, count: int) -> None:
        """So many more."""
        self._done += count
        now = time.monotonic()
        # Where the results themselves run down the screen there is nothing to tell.
        if now < self._next or sys.stdout.isatty():
            return
        self._next = now + PAUSE
        say(f"{self._done} {self._what}  {self._done / (now - self._start):.3g} a second")
