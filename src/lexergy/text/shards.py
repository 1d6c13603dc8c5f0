"""Sets of tensors too large for one file: numbered safetensors files and a manifest, atomic, resumable,
checksummed.

The manifest names each whole shard with its SHA-256, and what the set was made from. A writer that is started
again keeps the shards that are whole and goes on from there, so whatever makes their content must give the
same content again. A reader checks every shard that it opens. Token windows and mined sets are both stored
so.

*Example.*  writer = ShardWriter(folder, meta); for index in range(writer.done, n): writer.write(index, …);
writer.finish()
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lexergy.core.errors import LexergyError
from lexergy.core.files import read_json, read_tensors, sha256, write_json, write_tensors

MANIFEST = "manifest.json"
_FORMAT = 1
_NO_BYTES = torch.empty(0, dtype=torch.uint8)  # torch refuses to read an empty buffer


class ShardWriter:
    """Writes shards 0, 1, 2 … of a set into a folder. `done`: how many are there already and whole.

    `meta`: what the set is made from, as JSON. A folder made from something else is refused, never mixed or
    overwritten.
    """

    def __init__(self, folder: str | Path, meta: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.meta: dict[str, Any] = json.loads(json.dumps(dict(meta)))
        self._shards: list[dict[str, Any]] = []
        self.complete = False
        if (self.folder / MANIFEST).exists():
            self._resume()
        elif self.folder.exists() and not self._is_ours():
            raise LexergyError(
                f"{self.folder} exists and is not a set of shards that could be resumed: choose another "
                "place, or empty it."
            )

    @property
    def done(self) -> int:
        """How many shards are written."""
        return len(self._shards)

    @property
    def rows(self) -> int:
        """How many rows they hold together."""
        return sum(shard["rows"] for shard in self._shards)

    def write(
        self, index: int, tensors: Mapping[str, Tensor], rows: int, extra: Mapping[str, Any] | None = None
    ) -> None:
        """Write shard `index`, which is the next one. `extra`: a few words of JSON kept in the manifest."""
        if self.complete:
            raise LexergyError(f"The set in {self.folder} is finished: nothing can be added to it.")
        if index != self.done:
            raise LexergyError(f"The next shard of {self.folder} is number {self.done}; received {index}.")
        path = self.folder / f"shard-{index:05d}.safetensors"
        write_tensors(path, tensors)
        entry = {"file": path.name, "rows": rows, "sha256": sha256(path), "extra": dict(extra or {})}
        self._shards.append(entry)
        self._save()

    def finish(self) -> None:
        """Mark the set as whole: a reader refuses one that is not."""
        if not self.complete:
            self.complete = True
            self._save()

    def _save(self) -> None:
        write_json(
            self.folder / MANIFEST,
            {
                "format": _FORMAT,
                "complete": self.complete,
                "rows": self.rows,
                "meta": self.meta,
                "shards": self._shards,
            },
        )

    def _is_ours(self) -> bool:
        """Whether the folder is empty, or holds no more than what a stop before the first manifest leaves."""
        if not self.folder.is_dir():
            return False
        names = [path.name for path in self.folder.iterdir()]
        return all(name.endswith(".part") or name.startswith("shard-") for name in names)

    def _resume(self) -> None:
        manifest = _manifest(self.folder)
        if manifest["meta"] != self.meta:
            difference = _difference(manifest["meta"], self.meta)
            raise LexergyError(
                f"{self.folder} holds a set made from something else ({difference}). Choose another "
                "place, or remove the folder to make it again."
            )
        whole = manifest["shards"]
        for index, shard in enumerate(manifest["shards"]):
            path = self.folder / shard["file"]
            if not path.is_file() or sha256(path) != shard["sha256"]:
                whole = manifest["shards"][:index]
                break
        self._shards = whole
        self.complete = manifest["complete"] and len(whole) == len(manifest["shards"])
        kept = {shard["file"] for shard in whole}
        for path in self.folder.glob("*.safetensors*"):
            if path.name not in kept:
                path.unlink()  # written again by whoever resumes
        for path in self.folder.glob(".*.part"):
            path.unlink()


class ShardReader:
    """Reads a finished set: `meta`, how many `rows`, and the shards in order, each checked once."""

    def __init__(self, folder: str | Path, partial: bool = False) -> None:
        self.folder = Path(folder)
        if not (self.folder / MANIFEST).is_file():
            raise LexergyError(f"{self.folder} is no set of shards: there is no {MANIFEST} in it.")
        manifest = _manifest(self.folder)
        if not manifest["complete"] and not partial:
            raise LexergyError(
                f"The set in {self.folder} is unfinished: {len(manifest['shards'])} shards, "
                f"{manifest['rows']} rows. Run the "
                "command that made it again; it goes on where it stopped."
            )
        self.meta: dict[str, Any] = manifest["meta"]
        self.rows: int = manifest["rows"]
        self._shards: list[dict[str, Any]] = manifest["shards"]
        self._checked: set[int] = set()

    def __len__(self) -> int:
        return len(self._shards)

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return (self.read(index) for index in range(len(self)))

    def rows_of(self, index: int) -> int:
        """How many rows a shard holds."""
        return self._shards[index]["rows"]

    def extra(self, index: int) -> dict[str, Any]:
        """What was kept in the manifest with a shard."""
        return self._shards[index]["extra"]

    def read(self, index: int) -> dict[str, Tensor]:
        """The tensors of a shard."""
        shard = self._shards[index]
        path = self.folder / shard["file"]
        if index not in self._checked:
            if not path.is_file():
                raise LexergyError(f"Shard {path} is missing: run the command that made the set again.")
            if sha256(path) != shard["sha256"]:
                raise LexergyError(
                    f"Shard {path} is not what was written (its checksum differs): it was cut off or "
                    "changed. Run the command that made the set again; it keeps the other shards."
                )
            self._checked.add(index)
        return read_tensors(path)


def pack_rows(name: str, rows: Sequence[Sequence[int]], dtype: torch.dtype = torch.int32) -> dict[str, Tensor]:
    """Rows of different lengths as two tensors: all numbers in order, and where each row begins."""
    starts = torch.zeros(len(rows) + 1, dtype=torch.int64)
    starts[1:] = torch.tensor([len(row) for row in rows], dtype=torch.int64).cumsum(0)
    flat = torch.tensor([number for row in rows for number in row], dtype=dtype)
    return {name: flat, f"{name}.starts": starts}


def unpack_rows(tensors: Mapping[str, Tensor], name: str) -> list[list[int]]:
    """The inverse of `pack_rows`."""
    flat = tensors[name].tolist()
    starts = tensors[f"{name}.starts"].tolist()
    return [flat[a:b] for a, b in pairwise(starts)]


def pack_texts(name: str, texts: Sequence[str]) -> dict[str, Tensor]:
    """Texts as their bytes."""
    data = [text.encode("utf-8") for text in texts]
    starts = torch.zeros(len(data) + 1, dtype=torch.int64)
    starts[1:] = torch.tensor([len(one) for one in data], dtype=torch.int64).cumsum(0)
    flat = torch.frombuffer(bytearray(b"".join(data)), dtype=torch.uint8) if any(data) else _NO_BYTES
    return {name: flat, f"{name}.starts": starts}


def unpack_texts(tensors: Mapping[str, Tensor], name: str) -> list[str]:
    """The inverse of `pack_texts`."""
    data = tensors[name].numpy().tobytes()
    starts = tensors[f"{name}.starts"].tolist()
    return [data[a:b].decode("utf-8") for a, b in pairwise(starts)]


def _manifest(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or not {"format", "complete", "rows", "meta", "shards"} <= manifest.keys():
        raise LexergyError(f"{folder / MANIFEST} is not the manifest of a set of shards.")
    if manifest["format"] != _FORMAT:
        raise LexergyError(f"{folder} was written in format {manifest['format']}; this version reads {_FORMAT}.")
    return manifest


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    differing = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    return "; ".join(f"{key}: {old.get(key)!r} there, {new.get(key)!r} here" for key in differing)
