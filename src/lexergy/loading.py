"""From a place to something that works: `load_proposal`, `load_energy`, `as_energy`.

A string is a place: an existing path, then a name from the catalogue, then a Hub id.
"""

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
    """An energy: a place that `save_pretrained` wrote knows its kind; of any other checkpoint say which kind is meant."""
    if isinstance(source, Energy):
        return source
    options: dict[str, Any] = {"device": device, "dtype": dtype, "attn_implementation": attn_implementation}
    if not isinstance(source, tuple) and saved.is_saved(Path(source)):
        return saved.read(Path(source), **options)
    if kind is not None:
        if kind not in KINDS:
            raise unknown("kind of energy", kind, KINDS)
        return KINDS[kind](source, revision=revision, **options)
    kinds = ", ".join(sorted(KINDS))
    if isinstance(source, tuple):
        raise LexergyError(f"A model object does not say what it is meant as: give kind=, one of {kinds}.")
    known = catalog.available("energies")
    if str(source) in known and not Path(source).exists():
        raise LexergyError(
            f"{str(source)!r} is a kind of energy ({known[str(source)].rstrip('.')}), not one that exists yet. Train one "
            "with lexergy train, or name a checkpoint that was saved."
        )
    place = None if Path(source).exists() else _from_hub(str(source), revision)
    if place is None or not saved.is_saved(place):
        raise LexergyError(
            f"{str(source)!r} is no saved energy (there is no energy.json). If it is a checkpoint, say what it is meant as: "
            f"kind=, one of {kinds}."
        )
    return saved.read(place, **options)


def _from_hub(name: str, revision: str | None) -> Path | None:
    """The folder of a saved energy that the Hub, or this machine's copy of it, has."""
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError

    try:
        # First the small file: a checkpoint that is no energy is not fetched to find that out.
        hf_hub_download(name, "energy.json", revision=revision)
        return Path(snapshot_download(name, revision=revision))
    except (OSError, ValueError, EntryNotFoundError):
        return None


def as_energy(function: Callable[[list[str]], Sequence[float]]) -> Function:
    """Any function of texts as an energy: lower = likelier."""
    return Function(function)
