"""What is an energy: a finite number, or +inf for a text that is forbidden. NaN and −inf are errors that name the place."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from lexergy.core.errors import LexergyError


def check_energies(values: Float[Tensor, "*any"], named: Callable[[tuple[int, ...]], str], forbid: bool) -> None:
    """Refuse what is no energy. `named` makes words of its place (a number an axis); `forbid`: whether +inf is allowed."""
    broken = torch.isnan(values) | torch.isneginf(values)
    if not forbid:
        broken |= torch.isposinf(values)
    if not bool(broken.any()):
        return
    place = tuple(int(axis) for axis in broken.nonzero()[0])
    allowed = "a finite number, or +inf for a text that is forbidden" if forbid else "a finite number"
    raise LexergyError(
        f"The energy of {named(place)} is {values[place].item()}: an energy is {allowed}. Check what it was made by (a training "
        "that diverged leaves NaN), or try dtype float32."
    )
