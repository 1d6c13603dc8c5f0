"""A saved energy knows its kind: energy.json names the file in this folder that reads the rest."""

from pathlib import Path
from typing import Any

from lexergy import catalog
from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.core.types import Law
from lexergy.energies.base import Energy


def is_saved(folder: Path) -> bool:
    """Whether a folder holds a saved energy."""
    return (folder / "energy.json").is_file()


def read(folder: Path, **options: Any) -> Energy:
    """The energy in a folder. Options: device, dtype, attn_implementation, as the loaders of networks take them."""
    content = files.read_json(folder / "energy.json")
    if not isinstance(content, dict) or not {"kind", "config"} <= set(content):
        raise LexergyError(
            f"{folder / 'energy.json'} lacks its kind or its config: it was not written by save_pretrained."
        )
    energy: Energy = catalog.load("energies", content["kind"]).load(folder, content["config"], **options)
    if "mined" in content:
        energy.mined = Law.from_json(content["mined"])
    return energy
