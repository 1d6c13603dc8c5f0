"""A task small enough to train in milliseconds, for the tests of the loop."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lexergy.core import random
from lexergy.training.settings import Settings

Batch = tuple[Tensor, Tensor]

PLAIN = Settings(
    steps=12,
    learning_rate=0.02,
    warmup=2,
    dtype="float32",
    device="cpu",
    log_every=4,
    checkpoint_seconds=1e9,
    quiet=True,
)


def network(dropout: float = 0.3) -> nn.Sequential:
    with random.seeded(3, "network"):
        return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 1))


def batches(index: int, rows: int = 6) -> Batch:
    x = random.Keyed.of(11, index).uniform(rows * 5).view(rows, 5).float()
    return x, x.sum(dim=1, keepdim=True).sin()


def squared(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    x, y = batch
    error = model(x) - y
    return error.square().mean(), {"error": error.abs().mean()}


def held_out(model: nn.Module) -> dict[str, float]:
    x, y = batches(10_000, rows=30)
    return {"loss": float((model(x) - y).square().mean())}


def same(a: nn.Module, b: nn.Module) -> bool:
    theirs = b.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in a.state_dict().items())


def stopping_after(steps: int) -> Callable[[], bool]:
    calls = iter(range(1, 1_000))
    return lambda: next(calls) == steps


def scripted(values: list[float]) -> tuple[Callable[[nn.Module], dict[str, float]], list[dict[str, Tensor]]]:
    """A validation that gives these values, and the weights it was shown."""
    seen: list[dict[str, Tensor]] = []

    def validate(model: nn.Module) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"loss": values[len(seen) - 1]}

    return validate, seen
