"""What torch.compile is given on a GPU: the repeated blocks of a network, each compiled once per shape."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import torch
from torch import nn

from lexergy.training.settings import Settings

LONG: Final = 300
"""Steps from which compiling, some 20 seconds, is paid back."""


def regions(model: nn.Module) -> list[nn.Module]:
    """The blocks of every list of equal layers, or the whole model where there is none.

    One compiled block serves all layers, which makes compiling several times shorter than that of the whole.
    """
    found: list[nn.Module] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if (
            isinstance(module, nn.ModuleList)
            and module not in inside
            and len({type(m) for m in module}) == 1 < len(module)
        ):
            found.extend(module)
            inside.update(part for layer in module for part in layer.modules())
    return found or [model]


def eager(device: torch.device) -> AbstractContextManager[Any]:
    """What was compiled runs as written: validation has shapes of its own, and each would be compiled."""
    return torch.compiler.set_stance("force_eager") if device.type == "cuda" else nullcontext()


@contextmanager
def compiled(model: nn.Module, settings: Settings, device: torch.device) -> Iterator[bool]:
    """The model compiled in place for the length of a block, on a GPU: for a long run, or where asked for."""
    wanted = settings.steps >= LONG if settings.compile is None else settings.compile
    if device.type != "cuda" or not wanted:
        yield False
        return
    blocks = regions(model)
    for block in blocks:
        block.compile(dynamic=False)
    try:
        yield True
    finally:
        for block in blocks:
            block._compiled_call_impl = None  # torch offers no other way back
