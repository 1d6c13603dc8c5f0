"""Files that are whole or absent: written beside their place, then renamed; checked by hash when read again."""

# torch and safetensors leave some of their types open.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from lexergy.core.errors import LexergyError


@contextmanager
def atomic(path: Path) -> Generator[Path]:
    """A temporary file or folder beside `path` that takes its place when the block ends without an error.

    Whatever happens inside the block (a full disk, a kill, an exception), `path` holds either what it held before
    or the whole new content. One instant is left over: a kill between the two renames by which a folder replaces a
    folder leaves the old one beside its place, and the next `atomic` on that place puts it back. The block may write
    a file at the given path or make a folder there; a file that it cannot read is its own error, passed on as it is.
    """
    draft = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _put_back(path)
        yield draft
        _flush(draft)
        if path.is_dir() and draft.is_dir():
            # A folder cannot be renamed over a folder that is not empty: the old one steps aside first.
            aside = path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.old"
            path.rename(aside)
            try:
                draft.rename(path)
            except OSError:
                aside.rename(path)
                raise
            shutil.rmtree(aside)
        else:
            draft.replace(path)
        _to_disk(path.parent)
    except OSError as error:
        if not _of_writing(error, path, draft):
            raise
        raise LexergyError(
            f"Could not write {path}: {error.strerror or error}. Nothing half-written was left; free some space "
            "or choose another place, then run the command again."
        ) from error
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        elif draft.exists():
            draft.unlink()


def _flush(draft: Path) -> None:
    """Bring what was written to the disk before the rename: a rename that survives a power cut must not point at nothing."""
    for place in [draft, *sorted(draft.rglob("*"))]:
        _to_disk(place)


def _to_disk(place: Path) -> None:
    if os.name == "nt" and place.is_dir():  # Windows opens no folders
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_back(path: Path) -> None:
    """Take up an old folder that a kill left beside its place: back into it, or away where the new one made it there."""
    for aside in path.parent.iterdir():
        if not (aside.name.startswith(f".{path.name}.") and aside.name.endswith(".old")):
            continue
        if path.exists():
            shutil.rmtree(aside)
        else:
            aside.rename(path)


def _of_writing(error: OSError, path: Path, draft: Path) -> bool:
    """Whether an error is of the place itself, and not of some file that the block read from elsewhere."""
    if not isinstance(error.filename, str | bytes | os.PathLike):
        return True  # a full disk names no file
    named = Path(os.fsdecode(error.filename))
    own = named in (path, *path.parents) or draft in (named, *named.parents)
    return own or (named.parent == path.parent and named.suffix == ".old")


def sha256(path: Path) -> str:
    """The SHA-256 of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, with keys in their given order and a final newline."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read JSON; a missing or broken file is a user's error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LexergyError(f"There is no file {path}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise LexergyError(f"{path} is not valid JSON ({error}). It may have been cut off: make it again.") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic(path) as draft:
        try:
            save_file(whole, draft, metadata=dict(metadata or {}))
        except SafetensorError as error:  # safetensors reports a full disk as its own error
            raise OSError(str(error)) from error


def read_tensors(path: Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Read a safetensors file; a missing or truncated file is a user's error that names it."""
    if not path.is_file():
        raise LexergyError(f"There is no file {path}.")
    try:
        return load_file(path, device=str(device))
    except SafetensorError as error:
        raise LexergyError(
            f"{path} is not a whole safetensors file ({error}). It was cut off or is of another kind: make it again."
        ) from error


def load_state(module: nn.Module, tensors: Mapping[str, Tensor], source: Path) -> None:
    """Put tensors into a module; a missing, unknown or misshapen one is a user's error that names it and the file."""
    own = dict(module.named_parameters()) | dict(module.named_buffers())
    for name in sorted(own.keys() | tensors.keys()):
        if name not in tensors or name not in own:
            problem = "lacks" if name not in tensors else "has an unknown"
            raise LexergyError(f"{source} {problem} tensor {name!r}: it was saved from another kind of network.")
        if own[name].shape != tensors[name].shape:
            raise LexergyError(
                f"{source}: tensor {name!r} has shape {tuple(tensors[name].shape)}, but {tuple(own[name].shape)} is needed. It "
                "was saved from a network of another size."
            )
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)
