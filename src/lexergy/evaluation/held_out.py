"""The windows a model is judged on: from each group in turn, so that few long documents cannot speak for all.

Equation: the windows of a corpus in a declared space, in an order of their own within each group (by key), taken round
after round. One pass over all of them, each keyed by its number; no more are held than a few times those asked for.
"""

from collections.abc import Iterable
from itertools import islice

from transformers import PreTrainedTokenizerBase

from lexergy.core.errors import LexergyError
from lexergy.core.random import word
from lexergy.core.types import Space
from lexergy.text.document import Document
from lexergy.text.windows import Window, windows

_Held = dict[str, list[tuple[int, Window]]]


def held_out(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    prefix: int,
    length: int,
    space: Space,
    count: int,
    seed: int = 0,
    eos: int | None = None,
    bos: str = "auto",
) -> list[Window]:
    """At most `count` windows, spread over the groups."""
    if count < 1:
        raise LexergyError(f"At least one window is needed to judge on; received windows={count}.")
    held: _Held = {}
    every = windows(documents, tokenizer, prefix, length, space, bos=bos, eos_id=eos)
    for number, window in enumerate(every, start=1):
        held.setdefault(window.group, []).append((word(f"{seed} {number} {window.group}"), window))
        if number % (4 * count) == 0:
            # What is not among the first `count` now will not be later: its place can only fall further back.
            chosen = _first(held, count, seed)
            held = {}
            for key, kept in chosen:
                held.setdefault(kept.group, []).append((key, kept))
    return [window for _, window in _first(held, count, seed)]


def _first(held: _Held, count: int, seed: int) -> list[tuple[int, Window]]:
    """The first `count`, one of each group in a round."""
    turn = sorted(held, key=lambda group: word(f"{seed} {group}"))
    ordered = {group: sorted(held[group], key=lambda one: one[0]) for group in turn}
    rounds = max((len(found) for found in ordered.values()), default=0)
    every = (ordered[group][r] for r in range(rounds) for group in turn if r < len(ordered[group]))
    return list(islice(every, count))
