"""The loop on a GPU: what it computes, what it compiles, and that it never waits between two records."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from training_task import PLAIN, Batch, batches, network, squared, stopping_after

from lexergy.core import random
from lexergy.training import regions
from lexergy.training.loop import fit


def test_only_repeated_blocks_are_compiled_and_only_on_a_gpu() -> None:
    layer = nn.TransformerEncoderLayer(4, 1, 4, batch_first=True)
    body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    assert regions.regions(nn.Sequential(nn.Linear(4, 4), body)) == list(body.layers.children())
    plain = network()
    assert regions.regions(plain) == [plain]
    with regions.compiled(plain, dataclasses.replace(PLAIN, compile=True), torch.device("cpu")) as done:
        assert not done


def blocks() -> nn.Sequential:
    with random.seeded(3, "blocks"):
        layers = [nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)) for _ in range(3)]
        return nn.Sequential(nn.Linear(5, 16), Stack(layers), nn.Linear(16, 1))


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Sequential]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.gpu
def test_a_gpu_gives_what_the_cpu_does_compiled_or_not(tmp_path: Path) -> None:
    gpu = dataclasses.replace(PLAIN, device="cuda", validate_every=6)
    here, eager, compiled, half = blocks(), blocks(), blocks(), blocks()
    wanted = fit(here, squared, batches, PLAIN).records
    for model, settings, close in [
        (eager, gpu, 1e-3),
        (compiled, dataclasses.replace(gpu, compile=True), 1e-3),
        (half, dataclasses.replace(gpu, compile=True, dtype="bfloat16"), 0.1),
    ]:

        def validate(model: nn.Module) -> dict[str, float]:
            x, y = batches(10_000, rows=30)
            return {"loss": float((model(x.cuda()) - y.cuda()).square().mean())}

        records = fit(model, squared, batches, settings, None, validate).records
        for a, b in zip(wanted, records, strict=True):
            assert b["loss"] == pytest.approx(a["loss"], rel=close)
        assert next(model.parameters()).dtype == torch.float32
    assert all(part._compiled_call_impl is None for part in compiled.modules())
    out = blocks()
    fit(out, squared, batches, gpu, tmp_path, stop=stopping_after(5))
    assert fit(blocks(), squared, batches, gpu, tmp_path).step == 12


@pytest.mark.gpu
def test_a_gpu_is_never_waited_for_between_two_records() -> None:
    calls = iter(range(100))

    def watched(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        call = next(calls)
        if call == 2:  # the first steps allocate
            torch.cuda.set_sync_debug_mode("error")
        elif call == 11:
            torch.cuda.set_sync_debug_mode("default")
        return squared(model, batch)

    settings = dataclasses.replace(PLAIN, device="cuda", dtype="bfloat16", log_every=12)
    try:
        fit(network(), watched, batches, settings)
    finally:
        torch.cuda.set_sync_debug_mode("default")
