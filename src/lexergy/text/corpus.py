"""Corpora as streams of documents, and the texts that a verb is given.

As a corpus a .txt file holds documents separated by blank lines, a .jsonl file one a row (`text`, and `group`
or `author`), a folder one document a .txt file (and the rows of its .jsonl files); .gz and .xz of both are
read as they are. The name "docstrings" is the corpus that every installation has. Given to a verb, a .txt
holds one text a line.

*Not to be confused with* `windows`, which cuts documents into pieces of tokens.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexergy.core.errors import LexergyError
from lexergy.text.docstrings import NAME, docstrings
from lexergy.text.document import Document
from lexergy.text.lines import checked, kind, read_text_lines, row_of, text_in

_ROWS = {".jsonl", ".ndjson"}
_TEXT = {".txt", *_ROWS}
_TABLES = {".json", ".csv", ".tsv", ".parquet", ".arrow", ".xlsx", ".zip"}


@dataclass(frozen=True)
class Line:
    """One text that a verb was given, with the context it continues (empty where there is none)."""

    text: str
    context: str


def read_corpus(place: str | Path, column: str = "text", limit_words: int | None = None) -> Iterator[Document]:
    """The documents of a file, a folder, or the corpus named "docstrings", as a stream.

    A document of a file keeps to the group its row names, else to a group of its own made from its text: the
    same document has the same group in whatever file it stands. `limit_words`: stop after the document that
    reaches so many words.
    """
    path = Path(place)
    if str(place) == NAME and not path.exists():
        return docstrings(limit_words=limit_words)
    if not path.exists():
        raise LexergyError(
            f"There is no file or folder {path}, and no corpus of that name. Give a .txt, a .jsonl, a folder "
            f"of them, or {NAME!r}."
        )
    documents = _folder(path, column) if path.is_dir() else _nonempty(path, _file(path, column))
    return documents if limit_words is None else _first_words(documents, limit_words)


def read_lines(place: str | Path, field: str = "text") -> Iterator[Line]:
    """The texts of a file, or of standard input for "-": a .txt one a line, a .jsonl one a row.

    `field`: the column that holds the text, "prompt" for prompts (where a row has none, its `text`). Empty
    lines are texts too, so that results stand in line with the file. Standard input is .jsonl if its first
    line is an object.
    """
    path = Path(place)
    if str(place) != "-" and path.is_dir():
        raise LexergyError(f"{path} is a folder; give a .txt with one text a line, or a .jsonl.")
    _refuse_tables(path)
    count = 0
    as_rows = kind(path) in _ROWS
    for number, line in read_text_lines(place):
        if number == 1 and str(place) == "-":
            as_rows = line.lstrip().startswith("{")
        if not as_rows:
            yield Line(line, "")
        elif line.strip():
            where = f"{place}, line {number}"
            row = row_of(line, where)
            chosen = "text" if field == "prompt" and "prompt" not in row and "text" in row else field
            context = row.get("context")
            yield Line(text_in(row, chosen, where), "" if context is None else text_in(row, "context", where))
        else:
            continue
        count += 1
    if count == 0:
        raise LexergyError(f"{'Standard input' if str(place) == '-' else place} is empty: there is no text to read.")


def _first_words(documents: Iterator[Document], limit: int) -> Iterator[Document]:
    words = 0
    for document in documents:
        yield document
        words += len(document.text.split())
        if words >= limit:
            return


def _nonempty(path: Path, documents: Iterator[Document]) -> Iterator[Document]:
    empty = True
    for document in documents:
        empty = False
        yield document
    if empty:
        raise LexergyError(f"{path} holds no text: it is empty, or all blank.")


def _refuse_tables(path: Path) -> None:
    if kind(path) in _TABLES:
        raise LexergyError(
            f"{path} is a {kind(path)} file; texts are read from .txt and .jsonl (one object a line, with a "
            "text column), plain, .gz or .xz. Convert it first."
        )


def _file(path: Path, column: str) -> Iterator[Document]:
    _refuse_tables(path)
    return _rows(path, path.name, column) if kind(path) in _ROWS else _paragraphs(path)


def _folder(folder: Path, column: str) -> Iterator[Document]:
    found = sorted(p for p in folder.rglob("*") if p.is_file() and kind(p) in _TEXT)
    visible = [p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts)]
    empty = True
    for path in visible:
        name = path.relative_to(folder).as_posix()
        documents = _rows(path, name, column) if kind(path) in _ROWS else _whole(path, name)
        for document in documents:
            empty = False
            yield document
    if empty:
        what = f"{len(visible)} .txt or .jsonl files, all of them empty" if visible else "no .txt or .jsonl file"
        raise LexergyError(f"The folder {folder} holds no text: it has {what}.")


def _whole(path: Path, name: str) -> Iterator[Document]:
    text = "\n".join(line for _, line in read_text_lines(path)).strip("\n")
    if text.strip():
        yield Document(text, name, name)


def _paragraphs(path: Path) -> Iterator[Document]:
    lines: list[str] = []
    first = 1
    for number, line in read_text_lines(path):
        if line.strip():
            if not lines:
                first = number
            lines.append(line)
        elif lines:
            yield _own("\n".join(lines), f"{path.name}:{first}")
            lines = []
    if lines:
        yield _own("\n".join(lines), f"{path.name}:{first}")


def _rows(path: Path, name: str, column: str) -> Iterator[Document]:
    for number, line in read_text_lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        row = row_of(line, where)
        text = text_in(row, column, where)
        if not text.strip():
            continue
        group = _group(row, where)
        yield _own(text, f"{name}:{number}") if group is None else Document(text, group, f"{name}:{number}")


def _own(text: str, name: str) -> Document:
    """A document that is its own group. By its text, not its place: a copy elsewhere falls into the same
    part.
    """
    return Document(text, hashlib.blake2b(text.encode("utf-8"), digest_size=8).hexdigest(), name)


def _group(row: dict[str, Any], where: str) -> str | None:
    for column in ("group", "author"):
        value = row.get(column)
        if isinstance(value, str | int) and str(value).strip():
            return checked(str(value), f"{where}, column {column!r}")
        if value is not None and not isinstance(value, str | int):
            raise LexergyError(f"{where}: column {column!r} must be a string; received {type(value).__name__}.")
    return None
