"""Joint tokenisation: context and text are tokenised together, as one string, and parted by offsets
afterwards.

Equation: ids = tokenise(context + text); a token is context if it ends at or before the border, else it is
the text's.

Tokenising the two apart gives other tokens at the border (a space, a merge across it), so other
probabilities. A token across the border belongs to the text.

*Special tokens.* `special="bos"`, for causal models: what the tokeniser puts in front of a text is kept, what
it puts behind is not (a model that continues a text must not read that it has ended). `special="all"`, for
encoders: [CLS] … [SEP] stay. None of them is free.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, get_args

from tokenizers import Encoding, decoders
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.types import Tokens
from lexergy.text.lines import checked

Bos = Literal["auto", "always", "never"]
Special = Literal["bos", "all"]
Offsets = list[tuple[int, int]]


@dataclass(frozen=True)
class Encoded:
    """One context and text. Tokens from `free_from` up to `free_to` are the text's; `offsets`: the characters
    of context + text that each token covers, an empty span for tokens that were added.
    """

    ids: list[int]
    free_from: int
    free_to: int
    offsets: Offsets

    @property
    def free_ids(self) -> list[int]:
        """The ids of the text."""
        return self.ids[self.free_from : self.free_to]


def encode(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    contexts: Sequence[str],
    bos: str = "auto",
    eos: bool = False,
    special: Special = "bos",
    eos_id: int | None = None,
) -> list[Encoded]:
    """Tokenise each context with its text.

    bos: "auto" does what the tokeniser does, "always" adds one if there is none, "never" leaves it out; it is
    never doubled. eos: end each text with EOS (`eos_id`, else the tokeniser's), which is free.
    """
    backend = _fast(tokenizer)
    if len(texts) != len(contexts):
        raise LexergyError(f"One context a text: received {len(texts)} texts and {len(contexts)} contexts.")
    if special == "all" and (eos or bos != "auto"):
        raise LexergyError('special="all" keeps what the tokeniser adds: bos stays "auto" and eos False.')
    if bos not in get_args(Bos):
        raise unknown("bos", bos, get_args(Bos))
    if not texts:
        return []
    wholes = [
        checked(context + text, f"Text {row}") for row, (context, text) in enumerate(zip(contexts, texts, strict=True))
    ]
    end = [eos_of(tokenizer, eos_id)] if eos else []
    result = []
    for whole, context, encoding in zip(wholes, contexts, _encodings(backend, wholes), strict=True):
        head, body, tail = _parts(encoding, backend)
        offsets = _offsets(backend, whole, encoding)[body]
        ids = encoding.ids[body]
        border = len(context)
        start = _border(offsets, border)
        before = encoding.ids[head] if special == "all" else _before(backend, encoding.ids[head], ids, bos)
        if start == 0 and ids and ids[0] == backend.bos_token_id:
            start = 1  # a BOS that the text itself spells is given, not modelled
        after = encoding.ids[tail] if special == "all" else end
        free_to = len(before) + len(ids) + len(end)
        result.append(
            Encoded(
                ids=[*before, *ids, *after],
                free_from=len(before) + start,
                free_to=free_to,
                offsets=[*[(0, 0)] * len(before), *offsets, *[(len(whole), len(whole))] * len(after)],
            )
        )
    return result


def encode_plain(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The ids of texts that are data: nothing is added, and what spells a special token stays plain text."""
    backend = _fast(tokenizer)
    texts = [checked(text, f"Text {row}") for row, text in enumerate(texts)]
    return [list(encoding.ids) for encoding in _encodings(backend, texts, add_special=False, plain=True)]


def leading(tokenizer: PreTrainedTokenizerBase, bos: str = "auto") -> list[int]:
    """The special tokens that go before every text."""
    return encode(tokenizer, [""], [""], bos=bos)[0].ids


def start_of(tokenizer: PreTrainedTokenizerBase, eos: Sequence[int] = ()) -> int | None:
    """The id that stands for nothing: the tokeniser's BOS, else the first EOS (texts were joined by it), else none.

    `eos`: the ids that end a text, where a model states them.
    """
    own = [tokenizer.bos_token_id, *eos, tokenizer.eos_token_id]
    return next((one for one in own if isinstance(one, int)), None)


def begun(one: Encoded, start: int) -> Encoded:
    """The same text after the token that an empty context stands for, where there is no context."""
    if one.free_from > 0:
        return one
    return Encoded([start, *one.ids], 1, one.free_to + 1, [(0, 0), *one.offsets])


def eos_of(tokenizer: PreTrainedTokenizerBase, eos_id: int | None = None) -> int:
    """The id that ends a text: the one given, else the tokeniser's."""
    chosen = tokenizer.eos_token_id if eos_id is None else eos_id
    if not isinstance(chosen, int):
        raise LexergyError("A text is to end with EOS, but this tokeniser has no EOS token: give eos_id.")
    return chosen


def to_tokens(encoded: Sequence[Encoded], pad: int = 0) -> Tokens:
    """Encoded texts as a batch, padded on the right."""
    tokens = Tokens.of([one.ids for one in encoded], [one.free_from for one in encoded], pad)
    for row, one in enumerate(encoded):
        tokens.free[row, one.free_to :] = False
    return tokens


def _fast(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerFast:
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise LexergyError(
            f"Joint tokenisation needs offsets, which {type(tokenizer).__name__} does not give. Load the "
            "fast version of the tokeniser (a folder with tokenizer.json)."
        )
    return tokenizer


def _encodings(
    tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], add_special: bool = True, plain: bool = False
) -> list[Encoding]:
    """One `Encoding` a text, whole: whatever truncation or padding was saved with the tokeniser is off."""
    batch = tokenizer(
        list(texts),
        add_special_tokens=add_special,
        padding=False,
        truncation=False,
        split_special_tokens=plain,
        verbose=False,
    )
    if batch.encodings is None:
        raise LexergyError(f"{type(tokenizer).__name__} gave no encodings: a fast tokeniser is needed.")
    return batch.encodings


def _parts(encoding: Encoding, tokenizer: PreTrainedTokenizerFast) -> tuple[slice, slice, slice]:
    """What the tokeniser put in front, the text's own tokens, and what it put behind."""
    added = encoding.special_tokens_mask
    if all(added):
        # An empty text: only the names of the tokens tell the front from the back.
        front = int(bool(added) and encoding.ids[0] in (tokenizer.bos_token_id, tokenizer.cls_token_id))
        return slice(0, front), slice(front, front), slice(front, len(added))
    first = added.index(0)
    last = len(added) - added[::-1].index(0)
    return slice(0, first), slice(first, last), slice(last, len(added))


def _before(tokenizer: PreTrainedTokenizerFast, head: list[int], ids: list[int], bos: str) -> list[int]:
    """The special tokens in front: the tokeniser's, with one BOS at most, none that the text spells."""
    token = tokenizer.bos_token_id
    if bos == "never":
        return []
    if bos == "always" and not isinstance(token, int):
        raise LexergyError('bos="always", but this tokeniser has no BOS token. Use bos="auto" or "never".')
    if not isinstance(token, int):
        return head
    if ids and ids[0] == token:
        return [one for one in head if one != token]
    return [token, *head] if bos == "always" and token not in head else head


def _border(offsets: Offsets, border: int) -> int:
    """The first token of the text: it ends after the border, or covers nothing and stands at the border or
    after.
    """
    start = next((i for i, (_, end) in enumerate(offsets) if end > border), len(offsets))
    while start > 0 and offsets[start - 1][0] == offsets[start - 1][1] >= border:
        start -= 1
    return start


def _offsets(tokenizer: PreTrainedTokenizerFast, text: str, encoding: Encoding) -> Offsets:
    """The characters that each token covers.

    Byte-level tokens spell the text byte for byte, so their spans are counted: the offsets that come with
    them may have been trimmed at spaces, and then a token across the border would seem to end before it.
    """
    given: Offsets = list(encoding.offsets)
    backend = tokenizer.backend_tokenizer
    if not isinstance(backend.decoder, decoders.ByteLevel):
        return given
    if backend.normalizer is not None and backend.normalizer.normalize_str(text) != text:
        return given
    extra = tokenizer.added_tokens_encoder
    lengths = [
        0 if added else len(token.encode("utf-8")) if token in extra else len(token)
        for token, added in zip(encoding.tokens, encoding.special_tokens_mask, strict=True)
    ]
    ends = list(accumulate(lengths))
    size = [len(letter.encode("utf-8")) for letter in text] if not text.isascii() else [1] * len(text)
    if not ends or ends[-1] != sum(size):
        return given  # a space was put in front, or one was swallowed by a special token
    letter_of = [i for i, width in enumerate(size) for _ in range(width)]
    return [
        (0, 0) if added else (letter_of[end - length], letter_of[end - 1] + 1) if length else (0, 0)
        for end, length, added in zip(ends, lengths, encoding.special_tokens_mask, strict=True)
    ]
