"""The one training loop: an objective and batches go in, trained weights and metrics come out.

Equation: θ ← AdamW(θ, clip(mean of ∇loss over the step's batches), learning_rate · factor(step)).

*Inputs.* `loss_of(model, batch)` calls `model(…)` and returns the batch's mean loss, a scalar, and further
scalars to report. `batches(index)` is a pure function: step t of a run that accumulates A batches in each of
P processes asks, in process r, for the indices (t·A + a)·P + r, a < A. So nothing about the data has to be
kept for a run to be resumed, and dropout is keyed by (seed, step), so no generator's state either: stopped
and resumed equals straight through, on a CPU to the bit. *Requirements.* The model's trained weights become
float32, on the device, in place; it comes back in evaluation mode. `validate(model)` runs under the same
precision, without gradients, in evaluation mode.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from lexergy.core import files, random
from lexergy.core.errors import LexergyError, unknown
from lexergy.engine.probe import Shape
from lexergy.training import checkpoints, optimiser
from lexergy.training.feeding import feed
from lexergy.training.history import History, Numbers
from lexergy.training.metrics import ADVICE, Metrics, require_finite
from lexergy.training.processes import Processes
from lexergy.training.progress import Shown
from lexergy.training.regions import compiled, eager
from lexergy.training.schedules import factor
from lexergy.training.settings import Settings

Batch = TypeVar("Batch")
LossOf = Callable[[nn.Module, Batch], tuple[Tensor, dict[str, Tensor]]]
Validate = Callable[[nn.Module], Mapping[str, float]]


def fit(
    model: nn.Module,
    loss_of: LossOf[Batch],
    batches: Callable[[int], Batch],
    settings: Settings,
    out: Path | None = None,
    validate: Validate | None = None,
    resume: bool = True,
    stop: Callable[[], bool] | None = None,
    identity: Mapping[str, Any] | None = None,
    shape: Shape | None = None,
) -> History:
    """Train a model in place and return what happened; `out` receives checkpoints and history.json.

    A run found in `out` goes on from its last checkpoint, or is an error where `resume` is False. `stop` is
    asked after each step (with several processes: after each record) whether to leave off for now.
    `identity`: what else must be the same for a run to be resumed, as JSON: the hash of the data, say.
    `shape`: what the probe measures for where the dtype is "auto".
    """
    run = _Run(model, loss_of, settings, out, validate, resume, identity or {}, shape)
    run.train(batches, stop)
    return run.history


class _Run(Generic[Batch]):
    """One call of `fit`."""

    def __init__(
        self,
        model: nn.Module,
        loss_of: LossOf[Batch],
        settings: Settings,
        out: Path | None,
        validate: Validate | None,
        resume: bool,
        identity: Mapping[str, Any],
        shape: Shape | None,
    ) -> None:
        if settings.patience is not None and validate is None:
            raise LexergyError(f"patience={settings.patience} counts validations: give validate.")
        self.model, self.loss_of, self.settings, self.validate = model, loss_of, settings, validate
        self.out = out
        self.folder = None if out is None else out / "checkpoints"
        found = None if self.folder is None else checkpoints.latest(self.folder)
        if found and not resume:
            raise LexergyError(
                f"{found.folder.parent} holds a run at step {found.history.step}. Resume it, delete that "
                "folder, or choose another out."
            )
        self.processes = Processes(settings, out, shape, found.identity.get("dtype") if found else None)
        self.identity = {
            **settings.identity(),
            "dtype": self.processes.dtype,
            "processes": self.processes.count,
            **identity,
        }
        if found:
            checkpoints.require_same(found, self.identity)
        self.wrapped = self.processes.place(model)
        self.optimiser = optimiser.adamw(model, settings)
        self.history = found.history if found else History()
        if found:
            checkpoints.load_model(found, model)
            checkpoints.load_optimiser(found, model, self.optimiser)
        self.metrics = Metrics(self.history, self.processes)
        self.best: dict[str, Tensor] | None = None
        self.begun = time.monotonic() - self.history.seconds
        self.saved = time.monotonic()

    def train(self, batches: Callable[[int], Batch], stop: Callable[[], bool] | None) -> None:
        """All steps that are left, and the end of the run."""
        history, settings, count = self.history, self.settings, self.processes.count
        if history.ended == "stopped":
            history.ended = None
        shown = Shown(settings.steps, history.step, settings.quiet or not self.processes.first)
        first, last = history.step * settings.accumulate, settings.steps * settings.accumulate
        left = range(first * count + self.processes.rank, last * count, count)
        self.model.train()
        coming = feed(batches, left, self.processes.device)
        with closing(shown), closing(coming), compiled(self.model, settings, self.processes.device):
            while history.ended is None:
                self._step(coming)
                if history.step % settings.log_every == 0 or history.step == settings.steps:
                    shown.say({"loss": self._record()["loss"]})
                shown.show(history.step)
                improved = self._validation_is_due() and self._validate()
                if history.ended is None and history.step == settings.steps:
                    history.ended = "steps"
                if history.ended is None and self._asked(stop):
                    history.ended = "stopped"
                if history.ended == "patience" and self.metrics.waiting:
                    self._record()
                if history.ended or improved or self._checkpoint_is_due():
                    self._save()
        self._finish()

    def _step(self, coming: Any) -> None:
        """One update of the weights."""
        settings, history, accumulate = self.settings, self.history, self.settings.accumulate
        sums: dict[str, Tensor] = {}
        self.optimiser.zero_grad(set_to_none=True)
        with random.seeded(settings.seed, "step", history.step, self.processes.rank):
            for more in reversed(range(accumulate)):
                batch = next(coming)
                with self.processes.unsynchronised(self.wrapped, apart=more > 0):
                    with self.processes.autocast():
                        loss, metrics = self.loss_of(self.wrapped, batch)
                    (loss / accumulate if accumulate > 1 else loss).backward()
                for name, value in ({"loss": loss} | metrics | {"loss": loss}).items():
                    sums[name] = sums[name] + value.detach() if name in sums else value.detach()
        norm = optimiser.clip(self.model, settings.clip)
        taken = {**{name: value / accumulate for name, value in sums.items()}, "grad_norm": norm}
        if self.processes.device.type == "cpu" and self.processes.count == 1:
            # Looking is free here, and no weight is spoilt yet; on a GPU the next record looks.
            require_finite(history.step + 1, {name: float(taken[name]) for name in ("loss", "grad_norm")})
        optimiser.set_learning_rate(self.optimiser, self._rate(history.step))
        self.optimiser.step()
        history.step += 1
        self.metrics.add(taken)

    def _rate(self, step: int) -> float:
        """The learning rate of an update."""
        s = self.settings
        return s.learning_rate * factor(s.schedule, step, s.steps, s.warmup)

    def _record(self) -> Numbers:
        """Make a record of the steps since the last one."""
        record = self.metrics.record(self._rate(self.history.step - 1))
        self._log("train", record)
        return record

    def _log(self, part: str, numbers: Numbers) -> None:
        if self.settings.log:
            step = self.history.step
            self.processes.log({f"{part}/{name}": numbers[name] for name in numbers if name != "step"}, step)

    def _validation_is_due(self) -> bool:
        every, step = self.settings.validate_every, self.history.step
        return self.validate is not None and (step == self.settings.steps or (every > 0 and step % every == 0))

    def _validate(self) -> bool:
        """Validate; whether these are the best weights so far and are to be gone back to."""
        if self.validate is None:
            return False
        self.metrics.read()  # a model that is no longer finite is not validated
        settings, history = self.settings, self.history
        self.model.eval()
        device, dropout = self.processes.device, random.seeded(settings.seed, "validate", history.step)
        with dropout, self.processes.autocast(), torch.no_grad(), eager(device):
            said = self.validate(self.model)
        self.model.train()
        values = self.processes.agreed({name: float(value) for name, value in said.items()})
        history.validations.append({"step": history.step, **values})
        self._log("validation", values)
        if settings.metric not in values:
            raise unknown("validation metric", settings.metric, values)
        value = values[settings.metric]
        if math.isnan(value):
            raise LexergyError(f"Validation after step {history.step} gave {settings.metric} = nan. {ADVICE}")
        best = history.best_value
        if best is None or (value < best if settings.lower_is_better else value > best):
            history.best_step, history.best_value, history.without_improvement = history.step, value, 0
            return settings.patience is not None
        history.without_improvement += 1
        if settings.patience is not None and history.without_improvement >= settings.patience:
            history.ended = "patience"
        return False

    def _may_decide(self) -> bool:
        """Whether this step is one at which the processes may ask each other."""
        return self.processes.count == 1 or self.history.step % self.settings.log_every == 0

    def _asked(self, stop: Callable[[], bool] | None) -> bool:
        """Whether to leave off here."""
        return stop is not None and self._may_decide() and self.processes.agreed(stop())

    def _checkpoint_is_due(self) -> bool:
        every = self.settings.checkpoint_steps
        if every is not None and self.history.step % every == 0:
            return True
        late = self._may_decide() and time.monotonic() - self.saved >= self.settings.checkpoint_seconds
        return self._may_decide() and self.processes.agreed(late)

    def _save(self) -> None:
        """A checkpoint, or the best weights in memory where there is no place for one."""
        self.metrics.read()
        history = self.history
        history.seconds = time.monotonic() - self.begun
        if self.folder is None:
            if history.best_step == history.step and self.settings.patience is not None:
                self.best = {name: tensor.clone() for name, tensor in checkpoints.tensors(self.model).items()}
            return
        if self.processes.first:
            checkpoints.save(self.folder, self.model, self.optimiser, history, self.identity)
            checkpoints.prune(self.folder, self.settings.keep, also=[] if self._best is None else [self._best])
        self.processes.wait()
        self.saved = time.monotonic()

    @property
    def _best(self) -> int | None:
        """The step of the weights to go back to at the end."""
        return self.history.best_step if self.settings.patience is not None else None

    def _finish(self) -> None:
        """Go back to the best weights, write the history, close what logs."""
        if self.history.ended != "stopped" and self._best is not None and self._best != self.history.step:
            if self.folder is not None:
                checkpoints.load_model(checkpoints.at_step(self.folder, self._best), self.model)
            elif self.best is not None:
                checkpoints.put(self.model, self.best)
        self.model.eval()
        self.optimiser.zero_grad(set_to_none=True)
        if self.out is not None and self.processes.first:
            files.write_json(self.out / "history.json", self.history.to_json())
        self.processes.wait()
        self.processes.close()
