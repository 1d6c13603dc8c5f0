"""Energies: one number a text, whatever the batch, the order, the padding and the mode it is met in; finite;
the same when read from text and when saved and loaded.

Texts over the letters a, b, c stand for all others, after contexts of several lengths; a long one shows what
leaves log space.
"""

import itertools
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from lexergy.contracts.broken import refused, require, require_close
from lexergy.core.errors import LexergyError
from lexergy.core.toy import LETTERS
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.engine.load import evaluating
from lexergy.text.joint import Encoded, to_tokens
from lexergy.text.tokenisers import character_tokenizer

CONTEXTS: Final = ("", "a", "cb")
LONG: Final = 200
"""Letters of the long text: the product of as many probabilities below 0.02 is 0 in float64."""

CLOSE: Final = 1e-4
"""Relative to the energy where that is above 1: batches of other shapes round otherwise in float32."""

SAVED: Final = 1e-3
"""After saving and loading: weights may be held in another dtype."""

FINITE: Final = {
    "finite": "energies are finite numbers",
    "constraint": "energies are numbers, or +inf for what is forbidden",
}


def check(energy: Energy) -> None:
    """One energy by its law."""
    # A function of texts is checked as a function of toy tokens.
    reader = energy if energy.tokenizer is not None else energy.reading(character_tokenizer(LETTERS))
    texts, contexts = _texts(reader)
    with refused("context and text can be read together", "encode"):
        rows = reader.encode(texts, contexts)
    tokens = to_tokens(rows)
    values = _values(reader, tokens)
    _finite(energy, values)
    _repeatable(reader, tokens, values)
    _alone(reader, tokens, values)
    _padding(reader, tokens, values)
    _read(energy, texts, contexts, rows, values)
    _tokens_spelled(energy)
    _saved(energy, texts, contexts)


def _texts(energy: Energy) -> tuple[list[str], list[str]]:
    """Every text of up to three letters after each context, and one long text where it fits."""
    short = ["".join(letters) for n in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=n)]
    pairs = list(itertools.product(short, CONTEXTS))
    if energy.longest is None or energy.longest > LONG + 2:
        pairs.append((LETTERS * (LONG // len(LETTERS)), "a"))
    return [text for text, _ in pairs], [context for _, context in pairs]


def _values(energy: Energy, tokens: Tokens) -> Tensor:
    with refused(FINITE[energy.law], "forward: sums and products outside log space, or a law that allows +inf"):
        return energy.of_tokens(tokens)


def _finite(energy: Energy, values: Tensor) -> None:
    start = "a constraint leaves something to start from"
    require(bool(torch.isfinite(values).any()), start, "no text with a finite energy", "forward")
    differ = values[torch.isfinite(values)].unique()
    require(len(differ) > 1, "an energy tells texts apart", f"{differ[:1].tolist()} for every text", "forward")
    require(energy.law in FINITE, "an energy declares a law", energy.law, "the class attribute law")


def _repeatable(energy: Energy, tokens: Tokens, values: Tensor) -> None:
    law = "deterministic: the same text has the same energy"
    require_close(_values(energy, tokens), values, CLOSE, law, "asked again", "dropout or other randomness in forward")
    modes = [part.training for part in energy.modules()]
    energy.train()
    try:
        training = _values(energy, tokens)
        kept = all(part.training for part in energy.modules())
    finally:
        for part, mode in zip(energy.modules(), modes, strict=True):
            part.training = mode
    look = "dropout that does not listen to the module's mode"
    require_close(training, values, CLOSE, "scores are given in evaluation mode", "after train()", look)
    require(kept, "scoring leaves the mode as it found it", "a module left in evaluation mode", "of_tokens")


def _alone(energy: Energy, tokens: Tokens, values: Tensor) -> None:
    """Batches of 1, 2 and 7, another order, and repeated rows."""
    law = "a score does not depend on the other texts of its batch"
    look = "statistics over the batch, padding in a pool, a mask not applied"
    last = torch.arange(max(0, len(tokens) - 40), len(tokens))
    for size in (1, 2, 7):
        parts = [_values(energy, tokens.select(part)) for part in last.split(size)]
        require_close(torch.cat(parts), values[last], CLOSE, law, f"in batches of {size}", look)
    order = torch.arange(len(tokens)).flip(0)
    found = _values(energy, tokens.select(order))[order]
    require_close(found, values, CLOSE, "a score does not depend on the order of the texts", "reversed", look)
    twice = torch.tensor([3, 0, 3, 3, 1])
    repeated = _values(energy, tokens.select(twice))
    require_close(repeated, values[twice], CLOSE, "equal texts have equal scores", "repeated rows", look)
    # What training calls: the network itself, on a batch that is padded on the right.
    with torch.no_grad(), evaluating(energy):
        direct = energy(tokens.left_aligned())
    require_close(direct, values, CLOSE, "forward and of_tokens agree", "forward on a padded batch", look)


def _padding(energy: Energy, tokens: Tokens, values: Tensor) -> None:
    law = "padding does not count"
    look = "positions or a pool that count padding, or ids read where mask is False"
    for name, padded in paddings(tokens).items():
        require_close(_values(energy, padded), values, CLOSE, law, name, look)


def paddings(tokens: Tokens) -> dict[str, Tokens]:
    """The same texts padded otherwise: other ids behind, on the left, and in the middle."""
    first = int(tokens.ids[0, 0])
    blank = torch.full((len(tokens), 2), first)
    nothing = torch.zeros_like(blank, dtype=torch.bool)

    def insert(x: Tensor, at: int, new: Tensor) -> Tensor:
        return torch.cat([x[:, :at], new, x[:, at:]], dim=1)

    def widened(x: Tokens, at: int) -> Tokens:
        return Tokens(insert(x.ids, at, blank), insert(x.mask, at, nothing), insert(x.free, at, nothing))

    width = tokens.ids.shape[1]
    plain = Tokens(tokens.ids.masked_fill(~tokens.mask, first), tokens.mask, tokens.free)
    right, holed = widened(plain, width), widened(plain, width // 2)
    order = torch.argsort(right.mask.to(torch.int8), dim=1, stable=True)
    left = Tokens(right.ids.gather(1, order), right.mask.gather(1, order), right.free.gather(1, order))
    free = Tokens(holed.ids, holed.mask, holed.free | ~holed.mask)
    return {
        "padded on the right with a letter": right,
        "padded on the left": left,
        "with a gap of padding in the middle": holed,
        "with padding that is marked free": free,
    }


def _read(
    energy: Energy,
    texts: Sequence[str],
    contexts: Sequence[str],
    rows: Sequence[Encoded],
    values: Tensor,
) -> None:
    """Scores of texts are those of their tokens, special tokens and context included."""
    law = "the energy of a text is that of its tokens"
    look = "encode: BOS doubled or missing, context and text tokenised apart, context counted as text"
    with refused(FINITE[energy.law], "score"):
        scored = energy.score(texts, contexts)
        every = energy.score(texts[:4], contexts[1])
        each = energy.score(texts[:4], [contexts[1]] * 4)
    require(isinstance(scored, list), "score gives a list of float", type(scored).__name__, "score")
    require_close(torch.tensor(scored, dtype=torch.float64), values, CLOSE, law, "score(texts, contexts)", look)
    require(every == each, "one context stands for one a text", f"{every} and {each}", "score")
    for text, context, one in zip(texts, contexts, rows, strict=True):
        inside = "".join((context + text)[a:b] for a, b in one.offsets)
        found = f"tokens of {context + text!r} spell {inside!r}"
        require(inside == context + text, "tokens cover context and text, once", found, look)


def _tokens_spelled(energy: Energy) -> None:
    """Where an energy has token energies, their tokens spell the text."""
    try:
        found = energy.score_tokens("cab", "b")
    except LexergyError:
        return
    spelled = "".join(token for token, _ in found)
    require(spelled == "cab", "token energies are of the text's own tokens", repr(spelled), "score_tokens")
    finite = all(math.isfinite(value) for _, value in found)
    require(finite, "token energies are finite", str(found), "score_tokens")


def _saved(energy: Energy, texts: Sequence[str], contexts: Sequence[str]) -> None:
    """What can be saved comes back as the same energy, its sign in words beside it."""
    try:
        energy.config()
    except LexergyError:
        return
    law = "an energy that was saved and loaded is the same"
    look = "config, save_parts and load: a tensor not saved, a sign turned, a setting at its default"
    with tempfile.TemporaryDirectory() as place, refused(law, look):
        folder = Path(place) / "energy"
        energy.save_pretrained(folder)
        content = json.loads((folder / "energy.json").read_text(encoding="utf-8"))
        require("lower" in content.get("sign", ""), "a saved energy states its sign", str(content), "write")
        loaded = type(energy).load(folder, content["config"])
        again = torch.tensor(loaded.score(texts, contexts), dtype=torch.float64)
        before = torch.tensor(energy.score(texts, contexts), dtype=torch.float64)
    require_close(again, before, SAVED, law, "score after loading", look)
