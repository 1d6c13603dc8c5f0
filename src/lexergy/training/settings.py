"""Everything that decides what a training run computes, checked where it is made."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from lexergy.core.errors import LexergyError, unknown
from lexergy.training.schedules import SCHEDULES

# What may differ between the parts of a resumed run: where it runs, what is kept and shown.
_FREE = ("device", "compile", "checkpoint_seconds", "checkpoint_steps", "keep", "log", "quiet")


@dataclass(frozen=True)
class Settings:
    """How to train, for any objective. A step is one update of the weights, from `accumulate` batches."""

    steps: int
    learning_rate: float
    schedule: str = "cosine"
    warmup: int = 0
    clip: float = 1.0
    """The largest norm of the gradient; 0 clips nothing."""
    accumulate: int = 1
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """What the products run in; trained weights stay float32. auto: what the probe found fastest."""
    device: str = "auto"
    compile: bool | None = None
    """Compile on a GPU: None where the run is long enough to pay for it, False never, True always."""
    seed: int = 0
    checkpoint_seconds: float = 180.0
    checkpoint_steps: int | None = None
    """Also a checkpoint every so many steps."""
    keep: int = 2
    validate_every: int = 0
    """Validate every so many steps, and at the end; 0: at the end only."""
    patience: int | None = None
    """Stop after so many validations without improvement and go back to the best weights; None: neither."""
    metric: str = "loss"
    lower_is_better: bool = True
    log_every: int = 10
    log: bool = False
    """Also write TensorBoard's files."""
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        if self.dtype not in ("auto", "float32", "bfloat16"):
            raise LexergyError(f'dtype is "auto", "float32" or "bfloat16"; received {self.dtype!r}.')
        for name, least in {"steps": 1, "accumulate": 1, "keep": 1, "log_every": 1}.items():
            if getattr(self, name) < least:
                raise LexergyError(f"{name} is at least {least}; received {getattr(self, name)}.")
        for name in ("warmup", "clip", "weight_decay", "validate_every", "checkpoint_seconds"):
            if getattr(self, name) < 0:
                raise LexergyError(f"{name} is at least 0; received {getattr(self, name)}.")
        for name in ("patience", "checkpoint_steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LexergyError(f"{name} is at least 1, or None for none; received {value}.")
        if self.learning_rate <= 0:
            raise LexergyError(f"learning_rate is above 0; received {self.learning_rate}.")
        if self.warmup > self.steps:
            raise LexergyError(
                f"The warm-up of {self.warmup} steps is longer than the run of {self.steps}: shorten it, or "
                "train longer."
            )

    def identity(self) -> dict[str, Any]:
        """What must be the same for a run to be resumed, as JSON holds it."""
        kept = {key: value for key, value in dataclasses.asdict(self).items() if key not in _FREE}
        return {**kept, "betas": list(self.betas)}
