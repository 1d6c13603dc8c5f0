"""Tokenisers: loaded, trained, made for the toy universes; and ids back to text, with nothing stripped or
cleaned.

A trained tokeniser is byte-level BPE: any text has a tokenisation, and decoding gives it back byte for byte.
It adds no token of its own to a text; `<|endoftext|>` ends a document, `<|pad|>` fills, `<|mask|>` hides.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexergy.core.errors import LexergyError
from lexergy.core.files import atomic, read_json

EOS = "<|endoftext|>"
PAD = "<|pad|>"
MASK = "<|mask|>"
_SPECIAL = (EOS, PAD, MASK)
_SMALLEST = 256 + len(_SPECIAL)  # every byte must have a token, else some text has no tokenisation
_TAIL = 8  # how many tokens back can change how the next one is written: a character has four bytes at most


def load_tokenizer(place: str | Path, revision: str | None = None) -> PreTrainedTokenizerBase:
    """The tokeniser of a folder or of a Hub id. Code that comes with a checkpoint is never run."""
    folder = Path(place)
    if folder.is_file():
        raise LexergyError(f"{folder} is a file; a tokeniser is a folder with tokenizer.json, or a Hub id.")
    if (folder / "tokenizer.json").is_file():
        read_json(folder / "tokenizer.json")  # a file that was cut off is named here, not deep inside the loader
    source = str(folder) if folder.is_dir() else str(place)
    try:
        loaded = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).strip().split("\n")[0]
        raise LexergyError(
            f"No tokeniser could be loaded from {str(place)!r}: {reason} Give a folder that holds "
            "tokenizer.json, or the id of "
            "a Hub model that this machine has or can reach."
        ) from error
    if not isinstance(loaded, PreTrainedTokenizerBase):
        raise LexergyError(f"{str(place)!r} holds a {type(loaded).__name__}, not a tokeniser of text.")
    return loaded


def train_tokenizer(texts: Iterable[str], vocabulary: int, out: str | Path | None = None) -> PreTrainedTokenizerFast:
    """Byte-level BPE with at most `vocabulary` tokens, three of them special; saved to `out` if given.

    The same texts give the same tokeniser. One vocabulary serves all corpora of an experiment: chain their
    texts.
    """
    if vocabulary < _SMALLEST:
        raise LexergyError(
            f"A byte-level vocabulary has at least {_SMALLEST} tokens, 256 bytes and {len(_SPECIAL)} special "
            f"ones; received vocabulary={vocabulary}."
        )
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    tokenizer = _wrapped(backend, EOS, PAD, MASK)
    if out is not None:
        with atomic(Path(out)) as draft:
            tokenizer.save_pretrained(draft)
    return tokenizer


def character_tokenizer(
    letters: str, eos: str | None = EOS, pad: str | None = PAD, mask: str | None = MASK
) -> PreTrainedTokenizerFast:
    """Each character a token, ids in the order given, then the special tokens that are not None: eos, pad,
    mask.

    The tokeniser of toy universes. A character outside `letters` has no token, and tokenising it fails.
    """
    if not letters or len(set(letters)) != len(letters):
        raise LexergyError(f"A character tokeniser needs different letters, at least one; received {letters!r}.")
    special = [token for token in (eos, pad, mask) if token is not None]
    vocabulary = {token: i for i, token in enumerate([*letters, *special])}
    backend = Tokenizer(models.WordLevel(vocabulary))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    return _wrapped(backend, eos, pad, mask)


def decode(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], after: Sequence[int] = (), special: bool = False
) -> str:
    """Ids as text; bytes that are no whole character come out as U+FFFD.

    `after`: the ids that went before. Some decoders drop the space that a text begins with, which is right
    for a whole text and wrong for a continuation; a character begun in `after` belongs to the continuation.
    `special`: write special tokens too.
    """
    tail = list(after[-_TAIL:])
    whole = _decode(tokenizer, [*tail, *ids], special)
    if not tail:
        return whole
    # Not removeprefix: a character that was half written before is whole now.
    before = _decode(tokenizer, tail, special)
    differ = (i for i, (a, b) in enumerate(zip(whole, before, strict=False)) if a != b)
    return whole[next(differ, min(len(whole), len(before))) :]


def same_vocabulary(a: PreTrainedTokenizerBase, b: PreTrainedTokenizerBase) -> bool:
    """Whether every id means the same token to both."""
    return a is b or (len(a) == len(b) and a.get_vocab() == b.get_vocab())


def _decode(tokenizer: PreTrainedTokenizerBase, ids: list[int], special: bool) -> str:
    text = tokenizer.decode(ids, skip_special_tokens=not special, clean_up_tokenization_spaces=False)
    if not isinstance(text, str):
        raise LexergyError(f"One row of ids is decoded at a time; received {ids!r}.")
    return text


def _wrapped(backend: Tokenizer, eos: str | None, pad: str | None, mask: str | None) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=eos,
        pad_token=pad,
        mask_token=mask,
        clean_up_tokenization_spaces=False,
        model_max_length=10**9,  # a tokeniser knows no longest text; models do
    )
