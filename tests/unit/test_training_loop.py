"""The loop: what a step computes, what is reported, early stopping, and its errors."""

import dataclasses
import io
import math
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from training_task import PLAIN, Batch, batches, held_out, network, same, scripted, squared

from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.training.feeding import feed, moved
from lexergy.training.loop import fit
from lexergy.training.progress import Shown


def test_the_loop_is_adamw_on_the_mean_gradient() -> None:
    model, reference = network(0.0), network(0.0)
    history = fit(model, squared, batches, dataclasses.replace(PLAIN, steps=3, warmup=0, clip=0.0))
    decayed = [p for p in reference.parameters() if p.ndim == 2]
    rest = [p for p in reference.parameters() if p.ndim == 1]
    plain = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}],
        lr=0.02,
        fused=False,
    )
    losses = []
    for step in range(3):
        for group in plain.param_groups:
            group["lr"] = 0.02 * 0.5 * (1 + math.cos(math.pi * step / 3))
        loss, _ = squared(reference, batches(step))
        plain.zero_grad()
        loss.backward()
        plain.step()
        losses.append(loss.item())
    for mine, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert history.records[-1]["step"] == 3
    assert history.records[-1]["loss"] == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert history.ended == "steps"
    assert not model.training


def test_dropout_differs_from_step_to_step() -> None:
    seen: list[Tensor] = []

    def masked(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        seen.append(nn.functional.dropout(torch.ones(64), 0.5))
        return squared(model, batch)

    fit(network(), masked, batches, dataclasses.replace(PLAIN, accumulate=2, steps=3, warmup=0))
    assert len({tuple(mask.tolist()) for mask in seen}) == 6


def test_dropout_is_keyed_by_the_seed_and_the_global_generator_is_left_alone() -> None:
    one, two, other = network(), network(), network()
    before = torch.get_rng_state()
    fit(one, squared, batches, PLAIN)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(3)
    fit(two, squared, batches, PLAIN)
    fit(other, squared, batches, dataclasses.replace(PLAIN, seed=1))
    assert same(one, two)
    assert not same(one, other)


def test_accumulation_equals_the_big_batch() -> None:
    def halves(index: int) -> Batch:
        x, y = batches(index // 2, rows=8)
        return x[index % 2 :: 2], y[index % 2 :: 2]

    big, small = network(0.0), network(0.0)
    one = fit(big, squared, lambda index: batches(index, rows=8), PLAIN)
    two = fit(small, squared, halves, dataclasses.replace(PLAIN, accumulate=2))
    for mine, theirs in zip(big.parameters(), small.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    for a, b in zip(one.records, two.records, strict=True):
        assert b == pytest.approx(a, rel=1e-4)


@pytest.mark.parametrize("on_disk", [False, True])
def test_early_stopping_goes_back_to_the_best_weights(tmp_path: Path, on_disk: bool) -> None:
    settings = dataclasses.replace(PLAIN, validate_every=2, patience=2)
    validate, seen = scripted([3.0, 1.0, 2.0, 1.0, 0.0, 0.0])
    model = network()
    history = fit(model, squared, batches, settings, tmp_path if on_disk else None, validate)
    assert (history.ended, history.step, history.best_step, history.best_value) == ("patience", 8, 4, 1.0)
    assert [v["loss"] for v in history.validations] == [3.0, 1.0, 2.0, 1.0]
    assert all(torch.equal(seen[1][name], value) for name, value in model.state_dict().items())
    assert not torch.equal(seen[1]["0.weight"], seen[3]["0.weight"])
    assert history.pending == []
    if on_disk:
        kept = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
        assert kept == ["step-000002", "step-000004", "step-000008"][-2:]
        again = network()
        assert fit(again, squared, batches, settings, tmp_path, validate) == history
        assert same(model, again)


def test_the_best_checkpoint_outlives_the_others(tmp_path: Path) -> None:
    settings = dataclasses.replace(PLAIN, validate_every=2, patience=5, checkpoint_steps=1, keep=1)
    validate, seen = scripted([3.0, 1.0, 2.0, 2.0, 2.0, 2.0])
    model = network()
    history = fit(model, squared, batches, settings, tmp_path, validate)
    assert history.ended == "steps"
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-000004", "step-000012"]
    assert torch.equal(model.state_dict()["0.weight"], seen[1]["0.weight"])


def test_higher_may_be_better_and_without_patience_the_last_weights_stay() -> None:
    settings = dataclasses.replace(PLAIN, validate_every=4, metric="loss", lower_is_better=False)
    validate, seen = scripted([1.0, 3.0, 2.0])
    model = network()
    history = fit(model, squared, batches, settings, None, validate)
    assert (history.best_step, history.best_value) == (8, 3.0)
    assert torch.equal(model.state_dict()["0.weight"], seen[2]["0.weight"])


def test_validation_errors_name_what_is_missing() -> None:
    settings = dataclasses.replace(PLAIN, patience=1, metric="acuracy")
    with pytest.raises(LexergyError, match="give validate"):
        fit(network(), squared, batches, settings)
    with pytest.raises(LexergyError, match=r"Unknown validation metric 'acuracy'\. Did you mean 'accuracy'"):
        fit(network(), squared, batches, settings, None, lambda _: {"accuracy": 1.0})
    with pytest.raises(LexergyError, match="after step 12 gave acuracy = nan"):
        fit(network(), squared, batches, settings, None, lambda _: {"acuracy": math.nan})


def test_the_gradient_is_clipped_and_its_norm_reported() -> None:
    def steep(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = squared(model, batch)
        return 1000 * loss, metrics

    model = nn.Linear(5, 1)
    seen: list[float] = []
    settings = dataclasses.replace(PLAIN, steps=1, warmup=0, clip=0.5)

    def look(_: nn.Module) -> dict[str, float]:
        seen.extend(float(p.grad.norm()) for p in model.parameters() if p.grad is not None)
        return {"loss": 0.0}

    history = fit(model, steep, batches, settings, None, look)
    assert history.records[0]["grad_norm"] > 10
    assert math.hypot(*seen) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_is_named_by_its_step_and_nothing_is_saved(tmp_path: Path, where: str) -> None:
    def bad(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = squared(model, batch)
        if float(batch[0][0, 0]) == float(batches(6)[0][0, 0]):
            # The root's slope at zero is infinite, though the loss itself is not.
            loss = loss * math.nan if where == "loss" else loss + (loss - loss.detach()).clamp(min=0).sqrt()
        return loss, metrics

    model = network(0.0)
    named = "The loss of step 7 is nan" if where == "loss" else "The gradient's norm of step 7 is nan"
    with pytest.raises(LexergyError, match=f"{named}.*lower learning_rate"):
        fit(model, bad, batches, dataclasses.replace(PLAIN, checkpoint_steps=3), tmp_path)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-000003", "step-000006"]
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


def test_low_precision_weights_become_float32_masters_and_frozen_ones_stay() -> None:
    model = network(0.0).bfloat16()
    frozen = model[0].weight.requires_grad_(False)
    fit(model, squared, batches, dataclasses.replace(PLAIN, dtype="bfloat16", steps=3))
    assert frozen.dtype == torch.bfloat16
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    with pytest.raises(LexergyError, match="nothing to train"):
        fit(network().requires_grad_(False), squared, batches, PLAIN)


def test_metrics_may_differ_by_step_and_may_be_called_loss() -> None:
    def sometimes(model: nn.Module, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss, _ = squared(model, batch)
        odd = float(batch[0][0, 0]) < 0.5
        return loss, {"loss": torch.tensor(-1.0), **({"rare": torch.tensor(2)} if odd else {})}

    records = fit(network(), sometimes, batches, PLAIN).records
    assert any(record.get("rare") == 2 for record in records)
    assert all(record["loss"] > 0 for record in records)


def test_tensorboard_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    settings = dataclasses.replace(PLAIN, log=True, validate_every=6)
    with pytest.raises(LexergyError, match="give out"):
        fit(network(), squared, batches, settings)
    fit(network(), squared, batches, settings, tmp_path, held_out)
    events = list(tmp_path.rglob("events.out.tfevents*"))
    assert events
    assert any(b"train/grad_norm" in event.read_bytes() for event in events)
    assert any(b"validation/loss" in event.read_bytes() for event in events)


def test_progress_waits_then_says_loss_rate_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0, 4.0, 14.0])
    monkeypatch.setattr("lexergy.training.progress.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    shown = Shown(steps=100, begun=0, quiet=False)
    shown.say({"loss": 0.51234})
    for done in (5, 30, 40, 70):
        shown.show(done)
    shown.close()
    assert stream.getvalue().splitlines() == [
        "step 30 of 100  loss 0.5123  10 steps/s  7 s left",
        "step 70 of 100  loss 0.5123  5 steps/s  6 s left",
    ]


def test_progress_draws_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("lexergy.training.progress.PATIENCE", 0.0)
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    shown = Shown(steps=10, begun=0, quiet=False)
    shown.say({"loss": 0.25})
    shown.show(4)
    shown.close()
    assert "4/10" in stream.getvalue()
    assert "loss 0.25" in stream.getvalue()
    monkeypatch.setattr("sys.stderr", Terminal())
    Shown(steps=10, begun=0, quiet=True).show(4)
    assert sys.stderr.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]


def test_batches_ahead_come_in_order_and_moved() -> None:
    meta = torch.device("meta")
    came = list(feed(lambda i: {"x": [torch.ones(i)], "i": i}, range(2, 6), meta))
    assert [(batch["i"], batch["x"][0].shape[0], batch["x"][0].device) for batch in came] == [
        (i, i, meta) for i in range(2, 6)
    ]
    assert list(feed(lambda i: i, range(0), meta)) == []
    there = moved((Tokens.of([[1, 2], [3]]), "a"), meta)
    assert there[0].ids.device == there[0].free.device == meta
    assert there[1] == "a"
