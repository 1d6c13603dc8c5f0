"""How far a run is, on standard error: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PATIENCE: Final = 2.0
"""Seconds of work before anything is shown."""
PAUSE: Final = 10.0
"""Seconds between two lines where there is no terminal."""


class Shown:
    """A run's progress. `show` may be called at every step: it is free until there is something to say."""

    def __init__(self, steps: int, begun: int, quiet: bool, what: str = "step") -> None:
        self._steps, self._begun, self._quiet, self._what = steps, begun, quiet, what
        self._stream = sys.stderr
        self._start = time.monotonic()
        self._next = self._start + PATIENCE
        self._bar: Progress | None = None
        self._text = ""

    def say(self, values: dict[str, float]) -> None:
        """The numbers to show from now on."""
        self._text = "  ".join(f"{name} {value:.4g}" for name, value in values.items())

    def show(self, done: int) -> None:
        """So many steps are done."""
        now = time.monotonic()
        if self._quiet or now < self._next:
            return
        rate = (done - self._begun) / (now - self._start)
        if not self._stream.isatty():
            self._next = now + PAUSE
            left = (self._steps - done) / rate if rate > 0 else float("inf")
            said = f"{self._what} {done} of {self._steps}  {self._text}  {rate:.3g} {self._what}s/s  {left:.0f} s left"
            self._stream.write(said + "\n")
            self._stream.flush()
            return
        self._next = now + 0.1
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task(f"{self._what}s", total=self._steps, text="")
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, text=f"{self._text}  {rate:.3g} {self._what}s/s")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[text]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
