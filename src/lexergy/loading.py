"""From a place to something that works: `load_proposal`, `load_energy`, `as_energy`. A string is a place: an existing path,
then a name from the catalogue, then a Hub id."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy import catalog
from lexergy.core.errors import LexergyError, unknown
from lexergy.energies import saved
from lexergy.energies.base import Energy
from lexergy.energies.function import Function
from lexergy.energies.lm import LM
from lexergy.engine.load import load
from lexergy.proposals.causal import Causal
from lexergy.text.joint import Bos

Source = str | Path | tuple[PreTrainedModel, PreTrainedTokenizerBase]


def load_proposal(
    source: Source,
    *,
    bos: Bos = "auto",
    eos: Sequence[int] | int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    attn_implementation: str | None = None,
) -> Causal:
    """A language model that writes: a Hub id, a folder, or (model, tokenizer) objects."""
    loaded = load(
        source, "causal", device=device, dtype=dtype, revision=revision, attn_implementation=attn_implementation
    )
    return Causal(loaded, bos=bos, eos=eos)


KINDS: dict[str, Callable[..., Energy]] = {"lm": lambda source, **options: LM(load(source, "causal", **options))}
"""How an energy is made of a checkpoint that was not saved as one."""


def load_energy(
    source: Source | Energy,
    kind: str | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    attn_implementation: str | None = None,
) -> Energy:
    """An energy: a folder that `save_pretrained` wrote knows its kind; of any other checkpoint say which kind is meant."""
    if isinstance(source, Energy):
        return source
    options: dict[str, Any] = {
        "device": device,
        "dtype": dtype,
        "revision": revision,
        "attn_implementation": attn_implementation,
    }
    if not isinstance(source, tuple) and saved.is_saved(Path(source)):
        return saved.read(Path(source), **options)
    if kind is None:
        known = catalog.available("energies")
        if isinstance(source, str) and source in known and not Path(source).exists():
            raise LexergyError(
                f"{source!r} is a kind of energy ({known[source].rstrip('.')}), not one that exists yet. Train one with lexergy "
                f"train, or name a checkpoint and kind={source!r}."
            )
        raise LexergyError(
            f"{source!r} is no saved energy (no energy.json there). Say what it is meant as, kind= one of: {', '.join(sorted(KINDS))}."
        )
    if kind not in KINDS:
        raise unknown("kind of energy", kind, KINDS)
    return KINDS[kind](source, **options)


def as_energy(function: Callable[[list[str]], Sequence[float]]) -> Function:
    """Any function of texts as an energy: lower = likelier."""
    return Function(function)
