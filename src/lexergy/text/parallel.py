"""Parallel text: a source and its translation, from two files aligned line by line or from two columns of a
table.

Quotes are plain characters, as in every corpus of this kind. A pair with an empty side is skipped and
counted.
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from lexergy.core.errors import LexergyError, nearest
from lexergy.text.lines import read_text_lines


@dataclass(frozen=True)
class Pair:
    """A text and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class Parallel:
    """The pairs in the order of the files; `skipped`: how many had an empty side."""

    pairs: tuple[Pair, ...]
    skipped: int

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.pairs)


def read_parallel(
    source: str | Path,
    target: str | Path | None = None,
    columns: tuple[int, int] | tuple[str, str] = (0, 1),
    unescape: bool = False,
) -> Parallel:
    """Read two line-aligned files, or with one file the two `columns` of a table with tabs.

    columns: by number from 0, or by the names in the table's first line. unescape: turn HTML entities into
    characters.
    """
    rows = _columns(source, columns) if target is None else _aligned(source, target)
    pairs: list[Pair] = []
    skipped = 0
    for left, right in rows:
        one, other = (html.unescape(left), html.unescape(right)) if unescape else (left, right)
        if one.strip() and other.strip():
            pairs.append(Pair(one.strip(), other.strip()))
        else:
            skipped += 1
    if not pairs:
        raise LexergyError(f"{source} gives no pair of texts ({skipped} with an empty side).")
    return Parallel(tuple(pairs), skipped)


def _aligned(source: str | Path, target: str | Path) -> Iterator[tuple[str, str]]:
    counts = [0, 0]
    for left, right in zip_longest(read_text_lines(source), read_text_lines(target)):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is not None and right is not None:
            yield left[1], right[1]
    if counts[0] != counts[1]:
        raise LexergyError(
            f"{source} has {counts[0]} lines and {target} has {counts[1]}: line-aligned files have the same "
            "number. A line that was lost shifts all pairs after it."
        )


def _columns(table: str | Path, columns: tuple[int, int] | tuple[str, str]) -> Iterator[tuple[str, str]]:
    left, right = columns
    for number, line in read_text_lines(table):
        fields = line.split("\t")
        if isinstance(left, str) or isinstance(right, str):
            left, right = _place(fields, str(left), table), _place(fields, str(right), table)
            continue
        if not line.strip():
            yield "", ""
        elif max(left, right) >= len(fields) or min(left, right) < 0:
            raise LexergyError(
                f"{table}, line {number} has {len(fields)} columns; number {max(left, right)} was asked for, "
                "from 0. Columns are separated by tabs."
            )
        else:
            yield fields[left], fields[right]


def _place(header: list[str], name: str, table: str | Path) -> int:
    if name not in header:
        raise LexergyError(f"{table} has no column {name!r}; its columns: {', '.join(header)}. {nearest(name, header)}")
    return header.index(name)
