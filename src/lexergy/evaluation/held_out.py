"""The windows a model is judged on: from each group in turn, so that few long documents cannot speak for all.

Equation: the windows of a corpus in a declared space, shuffled within each group by key, taken round after round.
"""

from collections.abc import Iterable
from itertools import islice

from transformers import PreTrainedTokenizerBase

from lexergy.core.random import Keyed
from lexergy.core.types import Space
from lexergy.text.document import Document
from lexergy.text.windows import Window, windows

MOST = 200_000
"""Windows looked at, at most: enough for any test, and memory stays bounded on a corpus of any size."""


def held_out(
    documents: Iterable[Document],
    tokenizer: PreTrainedTokenizerBase,
    prefix: int,
    length: int,
    space: Space,
    count: int,
    seed: int = 0,
    eos: int | None = None,
) -> list[Window]:
    """At most `count` windows, spread over the groups."""
    by_group: dict[str, list[Window]] = {}
    for window in islice(windows(documents, tokenizer, prefix, length, space, eos_id=eos), MOST):
        by_group.setdefault(window.group, []).append(window)
    for group, found in by_group.items():
        order = Keyed.of(seed, "held out", group).permutation(len(found))[0].tolist()
        by_group[group] = [found[i] for i in order]
    names = sorted(by_group)
    turn = [names[i] for i in Keyed.of(seed, "groups").permutation(len(names))[0].tolist()]
    rounds = max((len(found) for found in by_group.values()), default=0)
    chosen = (by_group[name][r] for r in range(rounds) for name in turn if r < len(by_group[name]))
    return list(islice(chosen, count))
