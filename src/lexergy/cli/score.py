"""`lexergy score`: an energy for each text; lower = likelier. Its input is a stream, of which a block is held."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import Attention, Device, Dtype, Json, Kind, Revision, Windows
from lexergy.cli.output import Counted, flush, number, one_line, write, write_json

if TYPE_CHECKING:
    from lexergy.energies.base import Energy
    from lexergy.text.corpus import Line

BLOCK = 4096
CHARACTERS = 4_000_000
"""Texts, and their characters, that are scored at once: enough to fill batches of like lengths."""


def score(
    energy: Annotated[str, typer.Option(help="The energy: a folder or a Hub id.")],
    file: Annotated[
        str | None, typer.Argument(help="A .txt (one text a line), a .jsonl (text, context), or -.", show_default=False)
    ] = None,
    text: Annotated[list[str] | None, typer.Option(help="A text; may be repeated.")] = None,
    context: Annotated[str, typer.Option(help="What each text goes on from, where its row does not say.")] = "",
    kind: Kind = None,
    windows: Annotated[
        Windows | None, typer.Option(help="A text that is too long: the sum or the mean over its parts.")
    ] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="Also an energy a token, where there is one.")] = False,
    json: Json = False,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    attn_implementation: Attention = None,
) -> None:
    """Score texts: an energy for each, lower = likelier."""
    import lexergy as lx

    blocks = _blocks(_lines(file, text))
    first = next(blocks)  # a file that cannot be read is said before a model is loaded
    model = lx.load_energy(
        energy, kind, device=device, dtype=dtype, revision=revision, attn_implementation=attn_implementation
    )
    counted = Counted("texts scored")
    for block in chain([first], blocks):
        _write_block(model, block, context, windows.value if windows else None, tokens, json)
        flush()
        counted.add(len(block))


def _lines(file: str | None, text: list[str] | None) -> "Iterable[Line]":
    from lexergy.core.errors import LexergyError
    from lexergy.text.corpus import Line, read_lines
    from lexergy.text.lines import checked

    if (file is None) == (not text):
        raise LexergyError('Give texts as a FILE (- for standard input) or as --text "…", one of the two.')
    if file is not None:
        return read_lines(file)
    return [Line(checked(one, "--text"), "") for one in text or []]


def _blocks(lines: "Iterable[Line]") -> "Iterator[list[Line]]":
    block: list[Line] = []
    characters = 0
    for line in lines:
        block.append(line)
        characters += len(line.text) + len(line.context)
        if len(block) == BLOCK or characters >= CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _write_block(model: "Energy", block: "list[Line]", context: str, windows: Any, tokens: bool, json: bool) -> None:
    texts, contexts = [line.text for line in block], [line.context or context for line in block]
    values = model.score(texts, contexts, windows)
    for text, before, value in zip(texts, contexts, values, strict=True):
        parts = model.score_tokens(text, before) if tokens else []
        if json:
            row: dict[str, Any] = {"text": text, **({"context": before} if before else {}), "energy": value}
            write_json({**row, "tokens": parts} if tokens else row)
            continue
        shown = number(value)
        write(f"{shown}\t{one_line(text, used=len(shown.expandtabs()) + 8)}")
        for token, part in parts:
            write(f"\t{number(part)}\t{one_line(token)}")
