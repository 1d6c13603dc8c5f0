"""`lexergy mine`: windows of real text, and what a language model writes in their place. Resumable."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lexergy.cli.options import (
    Attention,
    Device,
    Dtype,
    Json,
    Quiet,
    Revision,
    Seed,
    Space,
    Temperature,
    TopK,
    TopP,
)
from lexergy.cli.output import say, write, write_json


def mine(
    file: Annotated[str, typer.Argument(help='A corpus: a .txt, a .jsonl, a folder of them, or "docstrings".')],
    lm: Annotated[str, typer.Option("--lm", help="The language model: a folder or a Hub id.")],
    out: Annotated[Path, typer.Option(help="The folder of the mined set.")],
    per_prefix: Annotated[int, typer.Option(help="Texts written for each window.")] = 4,
    prefix: Annotated[int, typer.Option(help="Tokens given.")] = 120,
    length: Annotated[int, typer.Option(help="Tokens that follow: real, and written.")] = 40,
    space: Annotated[
        Space, typer.Option(help="Whether a text ends at its first EOS, or has exactly that length.")
    ] = Space.until_eos,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    limit: Annotated[int | None, typer.Option(help="At most so many windows.")] = None,
    part: Annotated[str | None, typer.Option(help="Only this part of the corpus: lm, energy, valid or test.")] = None,
    parts: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SHARE", help="A part's share of the corpus; repeat for each.")
    ] = None,
    limit_words: Annotated[int | None, typer.Option(help="Read no further than so many words.")] = None,
    shard: Annotated[int, typer.Option(help="Windows a file.")] = 64,
    quiet: Quiet = False,
    json: Json = False,
    seed: Seed = 0,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    attn_implementation: Attention = None,
) -> None:
    """Mine negatives: let a language model go on from each window of a corpus, and keep what it writes."""
    import lexergy as lx
    from lexergy.core.random import resolve

    proposal = lx.load_proposal(
        lm, device=device, dtype=dtype, revision=revision, attn_implementation=attn_implementation
    )
    options: dict[str, Any] = {} if parts is None else {"parts": _shares(parts)}
    mined = lx.mine(
        proposal,
        file,
        out,
        per_prefix,
        prefix,
        length,
        space=space.value,  # type: ignore[arg-type]
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=resolve(seed),
        limit=limit,
        part=part,
        limit_words=limit_words,
        shard=shard,
        quiet=quiet,
        **options,
    )
    if json:
        law = str(mined.law)
        found = {"place": str(out), "windows": len(mined), "per_prefix": mined.per_prefix, "law": law}
        write_json({**found, "seed": mined.law.seed})
    else:
        say(f"{len(mined)} windows, {mined.per_prefix} written texts each; {mined.law}")
        write(str(out))


def _shares(given: list[str]) -> dict[str, float]:
    from lexergy.core.errors import LexergyError

    found: dict[str, float] = {}
    for item in given:
        name, _, share = item.partition("=")
        try:
            found[name] = float(share)
        except ValueError as error:
            raise LexergyError(f"--parts takes NAME=SHARE, energy=0.5 say; received {item!r}.") from error
    return found
