"""Lines of a text file, one at a time: plain, .gz or .xz, or "-" for standard input.

A line may be of any length; the file is never held whole. What cannot be text is an error that says where:
bytes that are not UTF-8, NUL bytes, a compressed file that was cut off.
"""

import gzip
import json
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from lexergy.core.errors import LexergyError, nearest

_MARK = b"\xef\xbb\xbf"  # the byte-order mark that some editors put at the start of UTF-8


@contextmanager
def opened(place: Path | str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked; a missing or broken file is a user's error that names it."""
    if str(place) == "-":
        yield sys.stdin.buffer
        return
    path = Path(place)
    openers = {".gz": gzip.open, ".xz": lzma.open}
    try:
        with openers.get(path.suffix, open)(path, "rb") as file:
            yield cast(BinaryIO, file)
    except FileNotFoundError as error:
        raise LexergyError(f"There is no file {path}.") from error
    except IsADirectoryError as error:
        raise LexergyError(f"{path} is a folder; give a file.") from error
    except PermissionError as error:
        raise LexergyError(f"{path} may not be read: change its permissions.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError) as error:
        raise LexergyError(f"{path} is not a whole {path.suffix} file ({error}): fetch or pack it again.") from error


def kind(place: Path | str) -> str:
    """The suffix that tells the format, in lower case, without .gz or .xz."""
    path = Path(place)
    return Path(path.stem).suffix.lower() if path.suffix in {".gz", ".xz"} else path.suffix.lower()


def read_text_lines(place: Path | str) -> Iterator[tuple[int, str]]:
    """(number, line) from 1, without the line's end. Only a newline, with or without a carriage return, ends
    a line.
    """
    name = "standard input" if str(place) == "-" else str(place)
    with opened(place) as file:
        start = 0
        for number, raw in enumerate(file, start=1):
            body = raw.removeprefix(_MARK) if number == 1 else raw
            start += len(raw) - len(body)
            nul = body.find(b"\x00")
            if nul >= 0:
                raise LexergyError(
                    f"{name} holds a NUL byte in line {number} (byte {start + nul} of the file), so it is "
                    "not plain UTF-8 text. Is it UTF-16, or a binary file? Convert it, say with iconv."
                )
            try:
                line = body.decode("utf-8")
            except UnicodeDecodeError as error:
                raise LexergyError(
                    f"{name} is not UTF-8 in line {number}: byte {start + error.start} of the file is "
                    f"0x{body[error.start]:02x} ({error.reason}). Convert the file to UTF-8, say with iconv."
                ) from error
            start += len(body)
            yield number, line.removesuffix("\n").removesuffix("\r")


def row_of(line: str, where: str) -> dict[str, Any]:
    """One line of JSON as an object."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise LexergyError(
            f"{where} is not JSON ({error.msg} at column {error.colno}). A .jsonl file holds one object a "
            "line; for plain text use .txt."
        ) from error
    if not isinstance(row, dict):
        raise LexergyError(
            f'{where} is JSON but not an object (received {type(row).__name__}): write {{"text": "…"}} a line.'
        )
    return row


def text_in(row: dict[str, Any], column: str, where: str) -> str:
    """The text in a column of a row; a missing one is an error that names the columns found."""
    if column not in row:
        found = ", ".join(map(repr, row)) or "none"
        close = nearest(column, row)
        hint = f" {close}" if close.startswith("Did you mean") else ""
        raise LexergyError(f"{where} has no column {column!r}; its columns: {found}.{hint}")
    value = row[column]
    if not isinstance(value, str):
        raise LexergyError(f"{where}: column {column!r} must be a string; received {type(value).__name__}.")
    return checked(value, f"{where}, column {column!r}")


def checked(text: str, where: str) -> str:
    """The text, if it can be written as UTF-8 and holds no NUL character; JSON's escapes allow both."""
    if "\x00" in text:
        raise LexergyError(f"{where} holds a NUL character (\\u0000): take it out.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LexergyError(
            f"{where} holds half a surrogate pair at character {error.start} "
            f"(\\u{ord(text[error.start]):04x}), "
            "which is no text: mend the escape in the file."
        ) from error
    return text
