"""Lexergy gives text an energy: train one, score with one, sample from one.

Names are looked up when they are first used, so that importing the package loads no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "load_proposal": "lexergy.loading",
    "load_energy": "lexergy.loading",
    "as_energy": "lexergy.loading",
    "mine": "lexergy.training.mine",
    "read_mined": "lexergy.text.mined",
    "train_energy": "lexergy.training.energy",
    "train": "lexergy.jobs",
    "evaluate": "lexergy.jobs",
    "read_nbest": "lexergy.text.nbest",
    "Joint": "lexergy.joint",
    "Energy": "lexergy.energies.base",
    "LexergyError": "lexergy.core.errors",
}
"""Where each public name lives."""

_MODULES = ("contracts", "hf")
"""Modules that are public themselves."""

__all__ = [
    "Energy",
    "Joint",
    "LexergyError",
    "__version__",
    "as_energy",
    "evaluate",
    "load_energy",
    "load_proposal",
    "mine",
    "read_mined",
    "read_nbest",
    "train",
    "train_energy",
]

if TYPE_CHECKING:
    from lexergy.core.errors import LexergyError as LexergyError
    from lexergy.energies.base import Energy as Energy
    from lexergy.jobs import evaluate as evaluate
    from lexergy.jobs import train as train
    from lexergy.joint import Joint as Joint
    from lexergy.loading import as_energy as as_energy
    from lexergy.loading import load_energy as load_energy
    from lexergy.loading import load_proposal as load_proposal
    from lexergy.text.mined import read_mined as read_mined
    from lexergy.text.nbest import read_nbest as read_nbest
    from lexergy.training.energy import train_energy as train_energy
    from lexergy.training.mine import mine as mine


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"lexergy.{name}")
    raise AttributeError(f"module 'lexergy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
