"""What happened while training, as numbers that JSON holds exactly."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

Numbers = dict[str, float | int]


@dataclass
class History:
    """The records of a run, step by step. Two runs that computed the same are equal: time is not compared."""

    step: int = 0
    """Steps done."""
    records: list[Numbers] = field(default_factory=list)
    """Every `log_every` steps: step, learning rate, the means of loss, gradient norm and metrics since."""
    validations: list[Numbers] = field(default_factory=list)
    best_step: int | None = None
    best_value: float | None = None
    without_improvement: int = 0
    """Validations since the best one."""
    ended: str | None = None
    """steps: all done; patience: stopped early, the best weights restored; stopped: left, to be resumed."""
    pending: list[Numbers] = field(default_factory=list)
    """Steps since the last record: a checkpoint may lie between two records."""
    seconds: float = field(default=0.0, compare=False)

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> "History":
        """The inverse of `to_json`."""
        return History(**value)
