"""A broken law is an error that says which law, with what numbers, and where to look."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from lexergy.core.errors import LexergyError


class ContractError(LexergyError):
    """A component does not keep the law that it declares."""


def require(kept: bool, law: str, found: str, look: str) -> None:
    """Raise unless a law is kept. `found`: the numbers; `look`: where such a defect usually sits."""
    if not kept:
        raise ContractError(f"Broken law: {law}. Found: {found}. Where to look: {look}.")


def require_close(found: Tensor, expected: Tensor, tolerance: float, law: str, what: str, look: str) -> None:
    """Raise unless two rows of numbers agree, relative to their size where that is above 1."""
    found, expected = found.double().cpu(), expected.double().cpu()
    same_shape = found.shape == expected.shape
    shapes = f"{what}: shape {tuple(found.shape)} instead of {tuple(expected.shape)}"
    require(same_shape, law, shapes, look)
    gap = (found - expected).abs() / expected.abs().clamp(min=1)
    # Equal infinities agree, though their difference is no number.
    gap = torch.where(found == expected, torch.zeros_like(gap), gap)
    wrong = ~(gap <= tolerance)
    if bool(wrong.any()):
        row = int(wrong.flatten().nonzero()[0])
        value, wanted = found.flatten()[row].item(), expected.flatten()[row].item()
        numbers = f"{what}: {value:.10g} instead of {wanted:.10g} (row {row}, tolerance {tolerance:g})"
        raise ContractError(f"Broken law: {law}. Found: {numbers}. Where to look: {look}.")


@contextmanager
def refused(law: str, look: str) -> Iterator[None]:
    """An error that the component itself raises inside the block is a broken law too."""
    try:
        yield
    except ContractError:
        raise
    except LexergyError as error:
        raise ContractError(f"Broken law: {law}. Found: {error} Where to look: {look}.") from error
