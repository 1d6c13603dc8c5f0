"""Windows: documents cut into a context and a continuation, in a declared space of continuations (spec 1).

`fixed`: documents stand one after the other with EOS between them; each window has exactly `prefix` +
`length` tokens, and EOS is an ordinary token. `until_eos`: within one document; the continuation ends with
EOS where the document ends within `length` tokens, EOS counted, and has exactly `length` tokens otherwise.

The space is stored with whatever is made of the windows: where samples may end and data never do, any energy
gains for free. *Requirements:* documents already de-duplicated and split, see `duplicates` and `split`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import get_args

from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.types import Space
from lexergy.text.document import Document
from lexergy.text.joint import encode_plain, eos_of, leading

_BATCH = 64  # documents tokenised in one call


@dataclass(frozen=True)
class Window:
    """`context`: given, a leading BOS included where the tokeniser has one. `group`: of the first
    continuation token.
    """

    context: list[int]
    continuation: list[int]
    group: str


def windows(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    prefix: int,
    length: int,
    space: str,
    stride: int | None = None,
    bos: str = "auto",
    eos_id: int | None = None,
) -> Iterator[Window]:
    """Windows of `prefix` context tokens and up to `length` continuation tokens, one every `stride` tokens.

    stride: by default `prefix` + `length`, so that windows do not overlap. bos: as in `encode`; it comes
    before the prefix and is not counted in it. Text that spells a special token is text: only a document's
    end is EOS.
    """
    if space not in get_args(Space):
        raise unknown("space", space, get_args(Space))
    stride = prefix + length if stride is None else stride
    if prefix < 0 or length < 1 or stride < 1:
        raise LexergyError(
            f"A window needs prefix at least 0, length and stride at least 1; received prefix={prefix}, "
            f"length={length}, stride={stride}."
        )
    head = leading(tokenizer, bos)
    eos = eos_of(tokenizer, eos_id)
    cut = _fixed if space == "fixed" else _until_eos
    return cut(_tokenised(documents, tokenizer), head, eos, prefix, length, stride)


def _tokenised(documents: Iterable[Document], tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[list[int], str]]:
    rest = iter(documents)
    while batch := list(islice(rest, _BATCH)):
        rows = encode_plain(tokenizer, [document.text for document in batch])
        yield from ((ids, document.group) for ids, document in zip(rows, batch, strict=True) if ids)


def _fixed(
    documents: Iterable[tuple[list[int], str]],
    head: list[int],
    eos: int,
    prefix: int,
    length: int,
    stride: int,
) -> Iterator[Window]:
    ids: list[int] = []
    groups: list[str] = []
    start = total = 0
    found = False
    for document, group in documents:
        ids += [*document, eos]
        groups += [group] * (len(document) + 1)
        total += len(document) + 1
        while start + prefix + length <= len(ids):
            border, end = start + prefix, start + prefix + length
            yield Window([*head, *ids[start:border]], ids[border:end], groups[border])
            found = True
            start += stride
        gone = min(start, len(ids))
        del ids[:gone], groups[:gone]
        start -= gone
    if not found:
        raise LexergyError(
            f"No window of {prefix} + {length} tokens fits: all documents together have {total} tokens. Give "
            "more text, or a shorter prefix or length."
        )


def _until_eos(
    documents: Iterable[tuple[list[int], str]],
    head: list[int],
    eos: int,
    prefix: int,
    length: int,
    stride: int,
) -> Iterator[Window]:
    longest = 0
    for ids, group in documents:
        longest = max(longest, len(ids))
        ended = [*ids, eos]  # EOS stands right behind the document, and counts as a token of the continuation
        for border in range(prefix, len(ids) + 1, stride):
            yield Window([*head, *ids[border - prefix : border]], ended[border : border + length], group)
    if longest < prefix or longest == 0:
        raise LexergyError(
            f"No window fits: its prefix has {prefix} tokens and the longest document {longest}. Give longer "
            "documents, or a shorter prefix."
        )
