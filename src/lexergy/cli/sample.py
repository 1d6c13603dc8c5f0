"""`lexergy sample`: weighted continuations from a joint model, or plain draws from a language model."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import (
    Attention,
    Base,
    Device,
    Dtype,
    EnergyPlace,
    Json,
    Kind,
    LanguageModel,
    Seed,
    Space,
    Temperature,
    TopK,
    TopP,
)
from lexergy.cli.output import flush, number, one_line, say, write, write_json

if TYPE_CHECKING:
    from lexergy.core.types import Draws, Samples

PROMPTS = 8
"""Prompts drawn for at once; what is drawn does not depend on it."""
LENGTH = 40


def sample(
    file: Annotated[
        str | None, typer.Argument(help="Prompts: a .txt (one a line), a .jsonl (prompt), or -.", show_default=False)
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt; may be repeated.")] = None,
    lm: LanguageModel = None,
    energy: EnergyPlace = None,
    joint: Annotated[str | None, typer.Option(help="A saved joint model, in place of --lm and --energy.")] = None,
    kind: Kind = None,
    n: Annotated[int, typer.Option("-n", "--n", help="Draws for each prompt.")] = 64,
    max_new_tokens: Annotated[
        int | None, typer.Option(help=f"The longest continuation; default: the joint model's length, or {LENGTH}.")
    ] = None,
    temperature: Temperature = 1.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    base: Annotated[
        Base, typer.Option(help="Weights relative to the law drawn from, or to the full language model.")
    ] = Base.draw,
    space: Annotated[
        Space | None,
        typer.Option(help="Whether a text ends at its first EOS; default: until_eos, or a saved joint model's own."),
    ] = None,
    pick: Annotated[int | None, typer.Option(help="Write only so many texts, resampled by weight.")] = None,
    json: Json = False,
    seed: Seed = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Annotated[
        str | None,
        typer.Option(help="Which revision on the Hub, of --lm (its energy is read at the newest) or of --joint."),
    ] = None,
    attn_implementation: Attention = None,
) -> None:
    """Continue prompts: n draws each, with their energies and weights where there is an energy."""
    import lexergy as lx
    from lexergy.core.errors import LexergyError
    from lexergy.core.random import resolve

    places = {"--joint": joint, "--lm": lm, "--energy": energy, "--kind": kind}
    _check(places, pick)
    blocks = _blocks(_prompts(file, prompt))
    first = next(blocks)  # a file that cannot be read is said before a model is loaded
    loading: dict[str, Any] = {"device": device, "dtype": dtype, "attn_implementation": attn_implementation}
    law: dict[str, Any] = {
        "seed": resolve(seed),
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    if joint is not None:
        model = lx.Joint.from_pretrained(joint, revision=revision, **loading)
        if space is not None and space.value != model.space:
            raise LexergyError(f"This joint model is over the space {model.space!r}: leave --space out.")
    else:
        assert lm is not None
        proposal = lx.load_proposal(lm, revision=revision, **loading)
        chosen = (space or Space.until_eos).value
        if energy is None:
            law |= {"space": chosen}
            model = proposal
        else:
            judge = lx.load_energy(energy, kind, **loading)
            model = lx.Joint(proposal, judge, space=chosen, length=max_new_tokens or LENGTH)  # type: ignore[arg-type]
    if isinstance(model, lx.Joint):
        law |= {"base": base.value, "max_new_tokens": max_new_tokens}
    else:
        law |= {"max_new_tokens": LENGTH if max_new_tokens is None else max_new_tokens}
    for block in _chained(first, blocks):
        for text, found in zip(block, model.sample(block, n, **law), strict=True):
            _write(text, found, pick, json)
        flush()


def _check(places: dict[str, str | None], pick: int | None) -> None:
    from lexergy.core.errors import LexergyError

    given = [name for name, place in places.items() if place is not None]
    if "--joint" in given and len(given) > 1:
        raise LexergyError(f"A saved joint model has its own language model and energy: leave {given[1]} out.")
    if not {"--joint", "--lm"} & set(given):
        raise LexergyError("Say what writes: --lm LM, with --energy E for a joint model, or --joint DIR.")
    if "--kind" in given and "--energy" not in given:
        raise LexergyError("--kind says what the checkpoint of --energy is meant as: give --energy, or leave it out.")
    if pick is not None and not {"--joint", "--energy"} & set(given):
        raise LexergyError("--pick resamples by weight, and plain draws have none: give --energy, or leave it out.")


def _prompts(file: str | None, prompt: list[str] | None) -> Iterable[str]:
    from lexergy.core.errors import LexergyError
    from lexergy.text.corpus import read_lines
    from lexergy.text.lines import checked

    if (file is None) == (not prompt):
        raise LexergyError('Give prompts as --prompt "…" or as a FILE (- for standard input), one of the two.')
    if file is not None:
        return (line.text for line in read_lines(file, "prompt"))
    return [checked(one, "--prompt") for one in prompt or []]


def _blocks(prompts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for prompt in prompts:
        block.append(prompt)
        if len(block) == PROMPTS:
            yield block
            block = []
    if block:
        yield block


def _chained(first: list[str], rest: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rest


def _write(prompt: str, found: "Samples | Draws", pick: int | None, json: bool) -> None:
    from lexergy.core.types import Samples

    weighed = found if isinstance(found, Samples) else None
    picked = weighed.pick(pick) if weighed is not None and pick is not None else None
    if json:
        write_json({"prompt": prompt, **_fields(found), **({} if picked is None else {"picked": picked})})
        return
    say(_summary(prompt, found))
    if weighed is None or picked is not None:
        for text in picked if picked is not None else found.texts:
            write(one_line(text))
        return
    for text, energy, weight in zip(found.texts, weighed.energy.tolist(), weighed.weight.tolist(), strict=True):
        start = f"{number(energy)}\t{weight:.4f}\t"
        write(start + one_line(text, used=len(start.expandtabs())))


def _fields(found: "Samples | Draws") -> dict[str, Any]:
    """The attributes of a result, without its token ids."""
    from lexergy.core.types import Samples

    fields: dict[str, Any] = {
        "texts": found.texts,
        "log_q": found.log_q.tolist(),
        "log_p": None if found.log_p is None else found.log_p.tolist(),
    }
    if isinstance(found, Samples):
        for name in ("energy", "log_weight", "weight"):
            fields[name] = getattr(found, name).tolist()
        return {**fields, "ess": found.ess, "max_weight": found.max_weight, "law": found.law, "seed": found.seed}
    return {**fields, "law": str(found.law), "seed": found.law.seed}


def _summary(prompt: str, found: "Samples | Draws") -> str:
    from lexergy.core.types import Samples

    start = f"{one_line(prompt)[:60]!r}: {len(found)} draws"
    if isinstance(found, Samples):
        start += f", effective {found.ess:.1f}, largest weight {found.max_weight:.3f}; energy, weight, text"
    return f"{start}\n  {found.law}"
