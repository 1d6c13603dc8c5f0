"""Checkpoints: a folder a step, whole or absent, from which a run goes on as if it had never been stopped.

`step-000123/` holds `model.safetensors`, `optimiser.safetensors` (entries "exp_avg/layer.weight": no pickle)
and `state.json` (the history, the settings, and the hashes of the two files). Randomness needs no state: it
is keyed by step.
"""

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.training.history import History

_NAME = re.compile(r"step-(\d{6,})")
_MODEL, _OPTIMISER, _STATE = "model.safetensors", "optimiser.safetensors", "state.json"
_OTHER_MODEL = "Build the model as it was, or choose another out for a new run."


@dataclass(frozen=True)
class Checkpoint:
    """One that was found: its folder and what its state.json says."""

    folder: Path
    history: History
    identity: dict[str, Any]
    checksums: dict[str, str]


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters and persistent buffers, each once: tied weights go under their first name."""
    seen: set[tuple[object, ...]] = set()
    kept: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if tensor.numel() == 0 or place not in seen:
            kept[name] = tensor
            seen.add(place)
    return kept


def put(model: nn.Module, named: Mapping[str, Tensor]) -> None:
    """The inverse of `tensors`, in place."""
    with torch.no_grad():
        for name, tensor in tensors(model).items():
            tensor.copy_(named[name])


def save(folder: Path, model: nn.Module, optimiser: Optimizer, history: History, identity: Mapping[str, Any]) -> Path:
    """Write the checkpoint of the history's step: whole, or an error and what was there before."""
    place = folder / f"step-{history.step:06d}"
    with files.atomic(place) as draft:
        draft.mkdir()
        files.write_tensors(draft / _MODEL, _separate(tensors(model)))
        files.write_tensors(draft / _OPTIMISER, _state(model, optimiser))
        state = {
            "format": 1,
            "history": history.to_json(),
            "identity": dict(identity),
            "checksums": {name: files.sha256(draft / name) for name in (_MODEL, _OPTIMISER)},
        }
        files.write_json(draft / _STATE, state)
    return place


def latest(folder: Path) -> Checkpoint | None:
    """The last whole checkpoint, or None. What a killed process left half-written is skipped."""
    for place in reversed(_places(folder)):
        if all((place / name).is_file() for name in (_MODEL, _OPTIMISER, _STATE)):
            return read(place)
    return None


def read(place: Path) -> Checkpoint:
    """What a checkpoint's state.json says."""
    state = files.read_json(place / _STATE)
    try:
        history = History.from_json(state["history"])
        return Checkpoint(place, history, state["identity"], state["checksums"])
    except (KeyError, TypeError) as error:
        raise LexergyError(
            f"{place / _STATE} is not the state of a training run ({error}). Delete the folder {place} to "
            "go on from the checkpoint before it."
        ) from error


def at_step(folder: Path, step: int) -> Checkpoint:
    """The checkpoint of one step."""
    return read(folder / f"step-{step:06d}")


def require_same(found: Checkpoint, identity: Mapping[str, Any]) -> None:
    """Refuse to go on with other settings than the run was begun with."""
    missing = object()
    changed = [
        f"{key} was {found.identity.get(key)!r} and is now {identity.get(key)!r}"
        for key in sorted({*found.identity, *identity})
        if found.identity.get(key, missing) != identity.get(key, missing)
    ]
    if changed:
        raise LexergyError(
            f"The run in {found.folder.parent} was begun with other settings: {'; '.join(changed)}. Give the "
            "old ones to resume it, or choose another out for a new run."
        )


def load_model(found: Checkpoint, model: nn.Module) -> None:
    """Put a checkpoint's weights into a model, in place."""
    stored, own = _whole(found, _MODEL), tensors(model)
    _require_names(found.folder / _MODEL, stored, own)
    for name, tensor in own.items():
        if stored[name].shape != tensor.shape:
            raise LexergyError(
                f"{found.folder / _MODEL} is of another shape: {name} is {list(stored[name].shape)} there "
                f"and {list(tensor.shape)} in the model. {_OTHER_MODEL}"
            )
    put(model, stored)


def load_optimiser(found: Checkpoint, model: nn.Module, optimiser: Optimizer) -> None:
    """Put a checkpoint's moments into an optimiser of the same model."""
    names = _names(model, optimiser)
    entries: dict[int, dict[str, Tensor]] = {}
    index = {name: i for i, name in enumerate(names)}
    for entry, tensor in _whole(found, _OPTIMISER).items():
        key, _, name = entry.partition("/")
        if name not in index:
            raise LexergyError(
                f"{found.folder / _OPTIMISER} holds {name!r}, which this model does not train. {_OTHER_MODEL}"
            )
        entries.setdefault(index[name], {})[key] = tensor
    optimiser.load_state_dict({"state": entries, "param_groups": optimiser.state_dict()["param_groups"]})


def prune(folder: Path, keep: int, also: Iterable[int] = ()) -> None:
    """Remove all but the last `keep` checkpoints and those of some steps, and what killed processes left."""
    kept = {folder / f"step-{step:06d}" for step in also}
    for place in _places(folder)[:-keep]:
        if place not in kept:
            shutil.rmtree(place)
    for left in [*folder.glob(".step-*.part"), *folder.glob(".step-*.old")]:
        shutil.rmtree(left)


def _places(folder: Path) -> list[Path]:
    """The folders named as checkpoints, in order of their steps."""
    found = [(int(match[1]), place) for place in folder.glob("step-*") if (match := _NAME.fullmatch(place.name))]
    return [place for _, place in sorted(found)]


def _separate(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Views of one memory become copies: safetensors refuses to write what overlaps."""
    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in named.items():
        storage = tensor.untyped_storage().data_ptr()
        apart[name] = tensor.detach().clone() if storage in seen else tensor
        seen.add(storage)
    return apart


def _names(model: nn.Module, optimiser: Optimizer) -> list[str]:
    """The names of the optimiser's parameters, in its own order."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(parameter)] for group in optimiser.param_groups for parameter in group["params"]]


def _state(model: nn.Module, optimiser: Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, flat."""
    names = _names(model, optimiser)
    state = optimiser.state_dict()["state"]
    return {f"{key}/{names[i]}": tensor for i, entry in state.items() for key, tensor in entry.items()}


def _whole(found: Checkpoint, name: str) -> dict[str, Tensor]:
    """The tensors of one file, after its hash was checked."""
    path = found.folder / name
    if not path.is_file() or files.sha256(path) != found.checksums.get(name):
        raise LexergyError(
            f"{path} is not what was written: it was cut off or changed. Delete the folder "
            f"{found.folder} to go on from the checkpoint before it, or choose another out."
        )
    return files.read_tensors(path)


def _require_names(path: Path, stored: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    other = sorted(stored.keys() ^ own.keys())
    if other:
        side = "only the file" if other[0] in stored else "only the model"
        raise LexergyError(
            f"{path} is of another model: {len(other)} names differ, the first is {other[0]!r}, which {side} "
            f"has. {_OTHER_MODEL}"
        )
