"""Training a residual energy by noise-contrastive estimation (generation paper, section 3.1): tell the true
continuation from what the language model wrote, given the context; the log-odds of "true" are −E.

*Inputs.* A mined set, or pairs (context, true text, [written texts]). An energy that reads other tokens than the
language model gets the decoded texts in its own. *Relations*: at the optimum P_LM·exp(−E) is the data and Z = 1.

Afterwards one factor a is fitted on the validation windows (trained energies are often over-confident): what comes back
is a·E, with a stored. Neither early stopping nor the factor ever sees a test window.
"""

import warnings
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from lexergy.core import random
from lexergy.core.errors import LexergyError, unknown
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.energies.scaled import Scaled
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import fingerprint
from lexergy.engine.probe import Shape
from lexergy.estimators.scale import scale
from lexergy.nets.transformer import PRESETS
from lexergy.objectives.nce import nce
from lexergy.text.mined import Mined
from lexergy.training.contrast import Contrast, Pair, choices, contrast, energies_of, shuffled
from lexergy.training.loop import fit
from lexergy.training.settings import Settings
from lexergy.training.start import Start, started

BATCH = 32
LEAST_TO_SCALE = 50
"""Validation windows below which a factor would be noise."""
MOST_SCALE = 10.0
"""Where the fit ends up here, the windows are told apart without fault and know no factor."""


def train_energy(
    data: Mined | Iterable[Pair],
    start: Start = None,
    size: str = "small",
    seed: int | None = 0,
    *,
    causal: bool | None = None,
    pooling: str = "mean",
    dropout: float | None = None,
    negatives: int = 1,
    form: str = "mean",
    epochs: float = 2.0,
    batch: int | None = None,
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

    start: a folder, Hub id or (model, tokenizer) of a network; a saved energy, to go on with; "bag" for a bag of
    tokens; None for a fresh transformer of `size`.
    causal, dropout: of a transformer of ours; other families keep what they were made with.
    negatives: how many written texts meet each true one in a step. batch: true texts a step (None: 32, or all there
    are). options: further `Settings` of the loop.
    """
    seed = random.resolve(seed)
    if size not in PRESETS:
        raise unknown("size", size, PRESETS)
    data = data if isinstance(data, Mined) else list(data)
    energy = started(
        start,
        data.tokenizer if isinstance(data, Mined) else None,
        size,
        seed,
        causal=causal,
        pooling=pooling,
        dropout=dropout,
        device=None if device == "auto" else device,
        vocabulary=data.vocabulary if isinstance(data, Mined) else 0,
    )
    read = contrast(data, energy)
    train, valid = read.parts(seed)
    rows = min(BATCH, len(train)) if batch is None else batch
    if not 1 <= rows <= len(train):
        raise LexergyError(f"{len(train)} training windows do not fill a batch of {rows}. Mine more, or lower batch.")
    if not 1 <= negatives <= read.per_prefix:
        raise LexergyError(
            f"negatives lies between 1 and the {read.per_prefix} that each window has; received {negatives}."
        )
    if not len(valid):
        warnings.warn(
            "There is no group of texts to validate on, so nothing stops training early, the last weights are kept and no "
            "factor is fitted. Give texts of more groups (authors, documents, contexts of pairs).",
            stacklevel=2,
        )
    if epochs <= 0:
        raise LexergyError(f"epochs is above 0; received {epochs}.")
    settings = _settings(
        {
            "steps": max(1, round(epochs * len(train) / rows)),
            "learning_rate": learning_rate or _learning_rate(energy),
            "patience": patience if len(valid) else None,
            "seed": seed,
            "device": device,
            "dtype": dtype,
            "quiet": quiet,
            **options,
        }
    )

    def batches(index: int) -> Tokens:
        windows = train[shuffled(seed, index, rows, len(train))]
        return read.tokens(windows, choices(seed, index, rows, read.per_prefix, negatives))

    def loss_of(network: nn.Module, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        values = network(tokens)
        return nce(values[:rows], values[rows:].view(rows, negatives), form)

    def validate(_: nn.Module) -> dict[str, float]:
        loss, info = nce(*energies_of(energy, read, valid))
        return {"loss": float(loss), "accuracy": float(info["accuracy"])}

    identity = {
        "data": read.hash,
        "energy": f"{type(energy).__name__} {fingerprint(energy)}",
        "made": _made(energy),
        "batch": rows,
        "negatives": negatives,
        "form": form,
    }
    place = Path(out) if out is not None else None
    shape = Shape.of(energy.trunk.config) if isinstance(energy, Transformer) else None
    validation = validate if len(valid) else None
    fit(energy, loss_of, batches, settings, place, validation, resume, identity=identity, shape=shape)
    energy.mined = data.law if isinstance(data, Mined) else None
    finished = _scaled(energy, read, valid) if fit_scale else energy
    if place is not None:
        finished.save_pretrained(place / "energy")
    return finished


def _settings(given: dict[str, Any]) -> Settings:
    """The loop's settings, with a warm-up and validations that suit the number of steps."""
    known = {field.name for field in fields(Settings)}
    for name in given:
        if name not in known:
            raise unknown("option of train_energy", name, known)
    steps = given["steps"]
    return Settings(**{"warmup": min(steps // 10, 2000), "validate_every": max(1, steps // 12), **given})


def _scaled(energy: Energy, read: Contrast, valid: Tensor) -> Energy:
    """The energy times its fitted factor, if there is enough to fit one on.

    A factor of 0 says that the energy tells nothing apart; it is left as it is, for whoever reads the report to see.
    """
    if len(valid) < LEAST_TO_SCALE:
        return energy
    real, written = energies_of(energy, read, valid)
    groups = [read.groups[i] for i in valid.tolist()]
    factor = scale(written, real, groups, goal="nce", largest=MOST_SCALE).value
    if not 1e-6 < factor < (1 - 1e-6) * MOST_SCALE:
        return energy
    finished = Scaled(energy, factor)
    finished.mined = energy.mined
    return finished


def _learning_rate(energy: Energy) -> float:
    """From the paper's table: a bag takes large steps, a large pretrained encoder small ones."""
    if not isinstance(energy, Transformer):
        return 1e-2
    return 3e-4 if energy.trunk.config.hidden_size <= 512 else 5e-5


def _made(energy: Energy) -> dict[str, Any]:
    """What decides an energy's training besides its weights."""
    if not isinstance(energy, Transformer):
        return {}
    config = energy.trunk.config.to_dict()
    return {**energy.config(), "causal": config.get("causal"), "dropout": config.get("dropout")}
