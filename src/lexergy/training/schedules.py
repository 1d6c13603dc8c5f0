"""Learning-rate schedules: pure functions of the step, so that resuming needs no state.

Equation, with w warm-up steps of S and u = (t − w) / (S − w): factor = (t + 1) / w while t < w, and after it
(1 + cos πu) / 2, 1 − u, √(max(w, 1) / (t + 1)), or 1. Cosine and linear reach zero at t = S, one past
the last step.
"""

import math
from collections.abc import Callable
from typing import Final


def cosine(step: int, steps: int, warmup: int) -> float:
    """Half a cosine, from 1 to 0."""
    return 0.5 * (1.0 + math.cos(math.pi * _done(step, steps, warmup)))


def linear(step: int, steps: int, warmup: int) -> float:
    """A straight line, from 1 to 0."""
    return 1.0 - _done(step, steps, warmup)


def inverse_sqrt(step: int, steps: int, warmup: int) -> float:  # noqa: ARG001  it has no end to aim at
    """Falling with the square root of the step, from 1 where the warm-up ends."""
    return math.sqrt(max(warmup, 1) / (step + 1))


def constant(step: int, steps: int, warmup: int) -> float:  # noqa: ARG001  the same at every step
    """1."""
    return 1.0


SCHEDULES: Final[dict[str, Callable[[int, int, int], float]]] = {
    "cosine": cosine,
    "linear": linear,
    "inverse_sqrt": inverse_sqrt,
    "constant": constant,
}
"""name → the factor at a step after the warm-up, of so many steps in all."""


def factor(schedule: str, step: int, steps: int, warmup: int) -> float:
    """What the learning rate is multiplied by at a step (0 is the first)."""
    return (step + 1) / warmup if step < warmup else SCHEDULES[schedule](step, steps, warmup)


def _done(step: int, steps: int, warmup: int) -> float:
    """The share of the run after its warm-up that is over."""
    return min(1.0, (step - warmup) / max(steps - warmup, 1))
