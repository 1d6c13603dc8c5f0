"""Training a residual energy by noise-contrastive estimation (generation paper, section 3.1): tell the true continuation from
what the language model wrote, given the context; the log-odds of "true" are −E.

*Inputs.* A mined set, or pairs (context, true text, [written texts]). An energy that reads other tokens than the language
model gets the decoded texts in its own. *Relations*: at the optimum P_LM·exp(−E) is the data and Z = 1.

Afterwards one factor a is fitted on the validation windows (trained energies are often over-confident): what comes back is a·E,
with a stored. Neither early stopping nor the factor ever sees a test window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy import catalog
from lexergy.core import random
from lexergy.core.errors import LexergyError
from lexergy.core.random import Keyed, seeded
from lexergy.core.types import Law, Tokens
from lexergy.energies.bag import Bag
from lexergy.energies.base import Energy
from lexergy.energies.retokenised import Retokenised
from lexergy.energies.scaled import Scaled
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import Loaded, load
from lexergy.engine.probe import Shape, plan
from lexergy.estimators.scale import scale
from lexergy.nets.transformer import PRESETS, TransformerModel, preset
from lexergy.objectives.nce import nce
from lexergy.text.joint import encode
from lexergy.text.mined import Mined
from lexergy.text.ragged import Ragged, Row
from lexergy.text.split import part_of
from lexergy.text.tokenisers import same_vocabulary
from lexergy.training.history import History
from lexergy.training.loop import fit
from lexergy.training.settings import Settings

Pair = tuple[str, str, Sequence[str]]
"""(context, true text, written texts)."""

PARTS = {"train": 0.95, "valid": 0.05}
VALIDATION_WINDOWS = 1024


@dataclass(frozen=True)
class Contrast:
    """True texts and, for each, as many written ones, in the tokens an energy reads."""

    real: Ragged
    written: Ragged
    per_prefix: int
    groups: Sequence[str]

    def part(self, name: str) -> Int[Tensor, "windows"]:
        """The windows of a part, by a hash of their group: all of an author, or of a document, on one side."""
        chosen = [i for i, group in enumerate(self.groups) if part_of(group, PARTS, salt="energy") == name]
        return torch.tensor(chosen, dtype=torch.long)

    def tokens(self, windows: Int[Tensor, "some"], numbers: Int[Tensor, "some k"]) -> Tokens:
        """The true texts, then the chosen written ones, window by window."""
        rows = windows[:, None] * self.per_prefix + numbers
        width = int(torch.cat([self.real.lengths[windows], self.written.lengths[rows.flatten()]]).max())
        a, b = self.real.batch(windows), self.written.batch(rows.flatten())

        def stack(x: Tensor, y: Tensor) -> Tensor:
            pad = nn.functional.pad
            return torch.cat([pad(x, (0, width - x.shape[1])), pad(y, (0, width - y.shape[1]))])

        return Tokens(stack(a.ids, b.ids), stack(a.mask, b.mask), stack(a.free, b.free))


def train_energy(
    data: Mined | Sequence[Pair],
    start: str | Path | None = None,
    size: str = "small",
    seed: int = 0,
    *,
    causal: bool | None = None,
    pooling: str = "mean",
    dropout: float = 0.1,
    negatives: int = 1,
    form: str = "mean",
    epochs: float = 2.0,
    batch: int = 32,
    learning_rate: float | None = None,
    patience: int | None = 4,
    fit_scale: bool = True,
    out: str | Path | None = None,
    resume: bool = True,
    device: str = "auto",
    dtype: str = "auto",
    quiet: bool = False,
    **options: Any,
) -> Energy:
    """Train an energy and give it back, ready to score; with `out`, checkpoint there and leave it in out/energy.

    start: a folder or Hub id of a network to start from, "bag" for a bag of tokens, None for a fresh transformer of `size`.
    causal: whether a transformer of ours looks back only (None: bidirectional when fresh, else as the network was made).
    negatives: how many written texts meet each true one in a step. options: further `Settings` of the loop.
    """
    energy = _started(data, start, size, seed, causal, pooling, dropout, device)
    contrast = _contrast(data, energy)
    train, valid = contrast.part("train"), contrast.part("valid")[:VALIDATION_WINDOWS]
    if len(train) < batch:
        raise LexergyError(f"{len(train)} training windows do not fill a batch of {batch}. Mine more, or lower batch.")
    if not 1 <= negatives <= contrast.per_prefix:
        raise LexergyError(f"negatives lies between 1 and the {contrast.per_prefix} that each window has; received {negatives}.")
    steps = max(1, round(epochs * len(train) / batch))
    settings = Settings(
        **{
            "steps": steps,
            "learning_rate": learning_rate or _learning_rate(energy),
            "warmup": min(steps // 10, 2000),
            "validate_every": max(1, steps // 12),
            "patience": patience if len(valid) else None,
            "seed": seed,
            "device": device,
            "dtype": dtype,
            "quiet": quiet,
            **options,
        }
    )

    def batches(index: int) -> Tokens:
        windows = train[_shuffled(seed, index, batch, len(train))]
        return contrast.tokens(windows, _choices(seed, index, len(windows), contrast.per_prefix, negatives))

    def loss_of(network: nn.Module, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        values = network(tokens)
        real, written = values[:batch], values[batch:].view(batch, negatives)
        return nce(real, written, form=form)  # type: ignore[arg-type]

    def validate(network: nn.Module) -> dict[str, float]:
        real, written = energies_of(energy, contrast, valid)
        loss, info = nce(real, written, form="mean")
        return {"loss": float(loss), "accuracy": float(info["accuracy"])}

    place = Path(out) if out is not None else None
    identity = {"data": _identity(data), "start": str(start), "size": size, "batch": batch, "negatives": negatives, "form": form}
    shape = Shape.of(energy.trunk.config) if isinstance(energy, Transformer) else None
    history = fit(
        energy, loss_of, batches, settings, place, validate if len(valid) else None, resume, identity=identity, shape=shape
    )
    law = data.law if isinstance(data, Mined) else None
    return _finished(energy, contrast, valid, fit_scale, history, place, law)


def _finished(
    energy: Energy, contrast: Contrast, valid: Tensor, fit_scale: bool, history: History, place: Path | None, law: Law | None
) -> Energy:
    """The energy with its fitted factor, saved where there is a place."""
    finished = energy
    if law is not None:
        energy.mined = law
    if fit_scale and len(valid) and history.ended != "stopped":
        real, written = energies_of(energy, contrast, valid)
        factor = scale(written, real, [contrast.groups[i] for i in valid.tolist()], goal="nce").value
        # A factor of 0 says that the energy tells nothing apart; it is left as it is, for whoever reads the report to see.
        if factor > 0:
            finished = Scaled(energy, factor)
            finished.mined = law
    if place is not None and history.ended != "stopped":
        finished.save_pretrained(place / "energy")
    return finished


@torch.no_grad()
def energies_of(
    energy: Energy, contrast: Contrast, windows: Int[Tensor, "some"]
) -> tuple[Float[Tensor, "some"], Float[Tensor, "some k"]]:
    """Energies of the true texts and of all the written ones."""
    every = torch.arange(contrast.per_prefix)
    rows = (windows[:, None] * contrast.per_prefix + every).flatten()
    real = energy.of_tokens(contrast.real.batch(windows))
    return real, energy.of_tokens(contrast.written.batch(rows)).view(len(windows), -1)


def _started(
    data: Mined | Sequence[Pair],
    start: str | Path | None,
    size: str,
    seed: int,
    causal: bool | None,
    pooling: str,
    dropout: float,
    device: str,
) -> Any:
    """The energy before training."""
    where = None if device == "auto" else device
    if start is None or start == "bag":
        if not isinstance(data, Mined):
            raise LexergyError(
                "Your own pairs come without a tokenizer, so the energy must start from a network: start= a folder or a Hub id."
            )
        if start == "bag":
            return Bag(data.tokenizer)
        return _fresh(data.tokenizer, size, seed, bool(causal), pooling, dropout)
    if str(start) in catalog.available("energies") and not Path(start).exists():
        raise LexergyError(f"A {start} energy is not started from its name. Give a network's folder or Hub id, or start='bag'.")
    loaded = load(start, "trunk", device=where, dtype="float32")
    if causal is not None or dropout:
        loaded = _changed(loaded, causal, dropout)
    special = "all" if loaded.tokenizer.cls_token_id is not None else "bos"
    with seeded(seed, "energy head"):
        return Transformer(loaded, pooling=pooling, special=special)  # type: ignore[arg-type]


def _fresh(tokenizer: PreTrainedTokenizerBase, size: str, seed: int, causal: bool, pooling: str, dropout: float) -> Transformer:
    config = preset(size, vocab_size=len(tokenizer), causal=causal, dropout=dropout)
    with seeded(seed, "fresh energy"):
        trunk = TransformerModel(config)
    return Transformer(Loaded(trunk, tokenizer, plan(Shape.of(config), dtype="float32"), "fresh", "object"), pooling=pooling)  # type: ignore[arg-type]


def _changed(loaded: Loaded, causal: bool | None, dropout: float) -> Loaded:
    """A transformer of ours looking the other way, or with dropout; other families keep what they were made with."""
    model = loaded.model
    if not isinstance(model, TransformerModel):
        if causal is not None and causal != bool(getattr(model.config, "is_decoder", False)):
            raise LexergyError(
                f"{loaded.name} was made to look one way; causal={causal} can be chosen for transformers of ours only. Leave it out."
            )
        return loaded
    model.config.dropout = dropout
    for block in model.blocks:
        block.dropout = dropout
        if causal is not None:
            block.causal = causal
    if causal is not None:
        model.config.causal = causal
    return loaded


def _contrast(data: Mined | Sequence[Pair], energy: Energy) -> Contrast:
    """The data in the energy's own tokens."""
    assert energy.tokenizer is not None
    if not isinstance(data, Mined):
        return _own_pairs(data, energy)
    if same_vocabulary(energy.tokenizer, data.tokenizer):
        return Contrast(data.real, data.negatives, data.per_prefix, data.groups)
    reader = Retokenised(energy, data.tokenizer)
    return Contrast(_translated(reader, data.real), _translated(reader, data.negatives), data.per_prefix, data.groups)


def _translated(reader: Retokenised, rows: Ragged) -> Ragged:
    found: list[Row] = []
    for part in torch.arange(len(rows)).split(1024):
        tokens = reader.translate(rows.batch(part))
        for row in range(len(tokens)):
            ids, free = tokens.real(row), tokens.free[row][tokens.mask[row]].tolist()
            begin = free.index(True) if True in free else len(ids)
            end = len(free) - free[::-1].index(True) if True in free else len(ids)
            found.append((ids, begin, end))
    return Ragged.of(found)


def _own_pairs(data: Sequence[Pair], energy: Energy) -> Contrast:
    counts = {len(written) for _, _, written in data}
    if len(counts) != 1 or 0 in counts:
        raise LexergyError(f"Every pair needs the same number of written texts, at least one; received {sorted(counts)}.")
    per_prefix = counts.pop()
    assert energy.tokenizer is not None

    def rows(texts: Sequence[str], contexts: Sequence[str]) -> Ragged:
        found = encode(energy.tokenizer, texts, contexts, special=energy.special)  # type: ignore[arg-type]
        return Ragged.of([(one.ids, one.free_from, one.free_to) for one in found])

    contexts = [context for context, _, _ in data]
    real = rows([text for _, text, _ in data], contexts)
    written = rows([text for _, _, texts in data for text in texts], [c for c in contexts for _ in range(per_prefix)])
    return Contrast(real, written, per_prefix, contexts)


def _learning_rate(energy: Energy) -> float:
    """From the paper's table: a bag takes large steps, a large pretrained encoder small ones."""
    if isinstance(energy, Bag):
        return 1e-2
    width = energy.trunk.config.hidden_size if isinstance(energy, Transformer) else PRESETS["small"]["hidden_size"]
    return 3e-4 if width <= 512 else 5e-5


def _shuffled(seed: int, index: int, batch: int, count: int) -> Int[Tensor, "batch"]:
    """The places of batch `index` in an endless list of keyed epochs."""
    places = torch.arange(index * batch, (index + 1) * batch)
    epochs = places // count
    out = torch.empty_like(places)
    for epoch in epochs.unique().tolist():
        out[epochs == epoch] = _order(seed, epoch, count)[places[epochs == epoch] % count]
    return out


@lru_cache(maxsize=4)
def _order(seed: int, epoch: int, count: int) -> Int[Tensor, "count"]:
    return Keyed.of(seed, "epoch", epoch).permutation(count)[0]


def _choices(seed: int, index: int, windows: int, per_prefix: int, negatives: int) -> Int[Tensor, "windows k"]:
    """Which written texts meet each true one: a uniform choice without repeats."""
    keys = Keyed.grid(seed, [index] * windows, list(range(windows))).at("negatives")
    return keys.permutation(per_prefix)[:, :negatives]


def _identity(data: Mined | Sequence[Pair]) -> str:
    """What the data are, in a word: resuming over other data is an error."""
    if isinstance(data, Mined):
        return f"{len(data)} windows, {data.law}"
    return f"{len(data)} pairs, {random.word(str(data[:100])):x}"
