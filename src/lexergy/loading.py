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
    if not isinstance(source, tuple) and saved.is_saved(Path(source)):
        raise LexergyError(f"{source} holds a saved energy, which judges texts and writes none. load_energy reads it.")
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
        energy = saved.read(Path(source), **options)
        own = kind_of(energy)
        if kind not in (None, own):
            raise LexergyError(
                f"{source} was saved as an energy of the kind {own!r}; received kind={kind!r}. Leave it out."
            )
        if revision is not None:
            raise LexergyError(f"{source} is a folder, which has no revisions; received revision={revision!r}.")
        return energy
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
    otherwise = f"If it is a checkpoint, say what it is meant as: kind=, one of {kinds}."
    return saved.read(saved_place(source, "energy.json", "saved energy", otherwise, revision), **options)


def saved_place(source: str | Path, file: str, what: str, otherwise: str, revision: str | None = None) -> Path:
    """The folder with a file that says what was saved there: a path, or what the Hub, or this machine's copy of it, has
    under an id. `otherwise`: what to do where there is none."""
    from huggingface_hub import hf_hub_download, snapshot_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    place, name = Path(source), str(source)
    if place.exists() and revision is not None:
        raise LexergyError(f"{place} is a folder, which has no revisions; received revision={revision!r}.")
    if (place / file).is_file():
        return place
    lacking = f"{name!r} is no {what} (there is no {file}). {otherwise}"
    if place.exists() or isinstance(source, Path):
        raise LexergyError(lacking)
    try:
        # First the small file: what is something else is not fetched to find that out.
        hf_hub_download(name, file, revision=revision)
        return Path(snapshot_download(name, revision=revision))
    except LocalEntryNotFoundError as error:
        raise LexergyError(
            f"{name!r} is no {what} that this machine has (there is no {file}), and the Hub was not reached. {otherwise}"
        ) from error
    except EntryNotFoundError as error:
        raise LexergyError(lacking) from error
    except (OSError, ValueError) as error:
        said = str(error).strip().partition("\n")[0].rstrip(".")
        raise LexergyError(
            f"{name!r} was not read from the Hub: {said or type(error).__name__}. {otherwise}"
        ) from error


def kind_of(energy: Energy) -> str:
    """The name of an energy's kind: that of its file."""
    return type(energy).__module__.rsplit(".", 1)[-1]


def as_energy(function: Callable[[list[str]], Sequence[float]]) -> Function:
    """Any function of texts as an energy: lower = likelier."""
    return Function(function)
