"""What a run measures at each step: kept where it was computed, and read in one piece when somebody looks.

Reading a number off a GPU makes the host wait for it. So steps pile up as tensors until a record, a
validation or a checkpoint looks at them all, and whatever is not finite is found then, under the step it
came from.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.training.history import History, Numbers
from lexergy.training.processes import Processes

ADVICE = 'Try a lower learning_rate, a longer warmup, a smaller clip, or dtype="float32".'


class Metrics:
    """The numbers of a run on their way into its history."""

    def __init__(self, history: History, processes: Processes) -> None:
        self._history, self._processes = history, processes
        self._waiting: list[dict[str, Tensor]] = []

    def add(self, values: dict[str, Tensor]) -> None:
        """The numbers of the history's step, scalars on their device."""
        self._waiting.append(values)

    @property
    def waiting(self) -> bool:
        """Whether there are steps since the last record."""
        return bool(self._waiting or self._history.pending)

    def read(self) -> None:
        """Bring what is waiting to the CPU and check it."""
        if not self._waiting:
            return
        flat = torch.stack([value.float() for values in self._waiting for value in values.values()])
        numbers = iter(self._processes.mean(flat).tolist())
        for step, values in enumerate(self._waiting, self._history.step - len(self._waiting) + 1):
            read = {name: next(numbers) for name in values}
            require_finite(step, read)
            self._history.pending.append(read)
        self._waiting.clear()

    def record(self, learning_rate: float) -> Numbers:
        """Make a record of the steps since the last one: each metric's mean over those that had it."""
        self.read()
        window, self._history.pending = self._history.pending, []
        columns: dict[str, list[float]] = {}
        for numbers in window:
            for name, value in numbers.items():
                columns.setdefault(name, []).append(value)
        means = {name: math.fsum(values) / len(values) for name, values in columns.items()}
        self._history.records.append({"step": self._history.step, "learning_rate": learning_rate, **means})
        return self._history.records[-1]


def require_finite(step: int, numbers: Mapping[str, float]) -> None:
    """Refuse to go on from a loss or a gradient that is not a number."""
    for name, what in {"loss": "The loss", "grad_norm": "The gradient's norm"}.items():
        if not math.isfinite(numbers[name]):
            raise LexergyError(f"{what} of step {step} is {numbers[name]}. Nothing was saved since. {ADVICE}")
