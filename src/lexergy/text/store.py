"""Token windows on disk: ragged rows in shards. Making them again is cheaper than checking them twice, so a
writer that was stopped skips as many windows as it finds and goes on.

*Requirements:* the same stream of windows each time, which `windows` gives for the same corpus and tokeniser.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from lexergy.core.errors import LexergyError
from lexergy.text.shards import ShardReader, ShardWriter, pack_rows, pack_texts, unpack_rows, unpack_texts
from lexergy.text.windows import Window


class StoredWindows:
    """Windows of a folder, read shard by shard; `meta` is what they were made from."""

    def __init__(self, place: str | Path) -> None:
        self._reader = ShardReader(place)
        self.meta = self._reader.meta

    def __len__(self) -> int:
        return self._reader.rows

    def __iter__(self) -> Iterator[Window]:
        for tensors in self._reader:
            contexts = unpack_rows(tensors, "context")
            continuations = unpack_rows(tensors, "continuation")
            groups = unpack_texts(tensors, "group")
            yield from map(Window, contexts, continuations, groups)


def read_windows(place: str | Path) -> StoredWindows:
    """The windows that `write_windows` wrote."""
    return StoredWindows(place)


def write_windows(
    out: str | Path, windows: Iterable[Window], meta: Mapping[str, Any], shard: int = 4096
) -> StoredWindows:
    """Write windows in shards of `shard` rows. Stopped and started again, it goes on after the last whole
    shard.

    meta: what the windows were made from (corpus, tokeniser, space, prefix, length, …); resuming with another
    is an error.
    """
    if shard < 1:
        raise LexergyError(f"A shard holds at least one window; received shard={shard}.")
    writer = ShardWriter(out, {**meta, "shard": shard})
    if not writer.complete:
        rest = iter(windows)
        skipped = sum(1 for _ in islice(rest, writer.rows))
        if skipped < writer.rows:
            raise LexergyError(
                f"{out} already holds {writer.rows} windows, but the corpus now gives only {skipped}: it has "
                "changed. Remove the folder to make the windows again."
            )
        while batch := list(islice(rest, shard)):
            tensors = {
                **pack_rows("context", [window.context for window in batch]),
                **pack_rows("continuation", [window.continuation for window in batch]),
                **pack_texts("group", [window.group for window in batch]),
            }
            writer.write(writer.done, tensors, rows=len(batch))
        writer.finish()
    return StoredWindows(out)
