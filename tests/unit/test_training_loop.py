"""The loop: stopped and resumed equals straight through, to the bit; early stopping; errors."""

import dataclasses
import errno
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lexergy.core import files, random
from lexergy.core.errors import LexergyError
from lexergy.core.types import Tokens
from lexergy.training import regions
from lexergy.training.feeding import feed, moved
from lexergy.training.history import History
from lexergy.training.loop import fit
from lexergy.training.progress import Shown
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
        return nn.Sequential(
            nn.Linear(5, 8), nn.Tanh(), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 1)
        )


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


@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "constant"])
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("at", [5, 8])
def test_stopped_and_resumed_equals_straight_through(
    tmp_path: Path, schedule: str, accumulate: int, at: int
) -> None:
    settings = dataclasses.replace(PLAIN, schedule=schedule, accumulate=accumulate, validate_every=3)
    straight, resumed = network(), network()
    whole = fit(straight, squared, batches, settings, tmp_path / "a", held_out)
    part = fit(resumed, squared, batches, settings, tmp_path / "b", held_out, stop=stopping_after(at))
    assert (part.step, part.ended) == (at, "stopped")
    resumed = network(0.3)  # a new process would start from here
    history = fit(resumed, squared, batches, settings, tmp_path / "b", held_out)
    assert same(straight, resumed)
    assert history == whole
    assert len(history.records) == 3
    assert History.from_json(files.read_json(tmp_path / "b" / "history.json")) == whole


def test_resuming_in_bf16_is_exact_too_and_keeps_the_dtype_that_was_chosen(tmp_path: Path) -> None:
    settings = dataclasses.replace(PLAIN, dtype="bfloat16")
    straight, resumed = network(), network()
    fit(straight, squared, batches, settings)
    fit(resumed, squared, batches, settings, tmp_path, stop=stopping_after(5))
    auto = dataclasses.replace(settings, dtype="auto")  # the tests' probe would say float32
    fit(resumed, squared, batches, auto, tmp_path)
    assert same(straight, resumed)
    exact = network()
    fit(exact, squared, batches, PLAIN)
    assert not same(straight, exact)


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


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import torch
torch.set_num_threads(1)
from test_training_loop import *
from lexergy.training import checkpoints

root = Path(sys.argv[1])
settings = dataclasses.replace(PLAIN, checkpoint_steps=2)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def die_at_batch_5():
    return fit(network(), squared, lambda i: die() if i == 5 else batches(i), settings, root / "batch")

def die_at_the_end():
    return fit(network(), squared, lambda i: die() if i == 11 else batches(i), settings, root / "last")

def die_inside_a_write():
    write, count = files.save_file, iter(range(100))
    def halfway(tensors, path, metadata):
        write(tensors, path, metadata=metadata)
        if next(count) == 5:  # the third checkpoint's second file
            path.write_bytes(path.read_bytes()[:100])
            die()
    files.save_file = halfway
    return fit(network(), squared, batches, settings, root / "write")

for run in (die_at_batch_5, die_at_the_end, die_inside_a_write):
    child = os.fork()
    if child == 0:
        run()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_killed_twice_between_steps_and_once_inside_a_write(tmp_path: Path) -> None:
    places = [str(Path(__file__).parent), *[p for p in sys.path if p.endswith("src")]]
    ran = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), *places], capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["-9", "-9", "-9"], ran.stderr
    assert list((tmp_path / "write" / "checkpoints").glob(".step-000006.*.part"))
    straight = network()
    settings = dataclasses.replace(PLAIN, checkpoint_steps=2)
    whole = fit(straight, squared, batches, settings)
    for name, reached in {"batch": 4, "last": 10, "write": 4}.items():
        asked: list[int] = []
        resumed = network()

        def noted(index: int, asked: list[int] = asked) -> Batch:
            asked.append(index)
            return batches(index)

        history = fit(resumed, squared, noted, settings, tmp_path / name)
        assert asked == list(range(reached, 12))
        assert same(straight, resumed)
        assert history == whole
        left = sorted(p.name for p in (tmp_path / name / "checkpoints").iterdir())
        assert left == ["step-000010", "step-000012"]


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    model = network()
    whole = fit(model, squared, batches, PLAIN, tmp_path)
    again = network()

    def never(index: int) -> Batch:
        raise AssertionError(f"batch {index} was asked for")

    assert fit(again, squared, never, PLAIN, tmp_path) == whole
    assert same(model, again)
    with pytest.raises(LexergyError, match="holds a run at step 12"):
        fit(again, squared, batches, PLAIN, tmp_path, resume=False)


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


def scripted(values: list[float]) -> tuple[Callable[[nn.Module], dict[str, float]], list[dict[str, Tensor]]]:
    """A validation that gives these values, and the weights it was shown."""
    seen: list[dict[str, Tensor]] = []

    def validate(model: nn.Module) -> dict[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"loss": values[len(seen) - 1]}

    return validate, seen


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


def test_changed_settings_are_refused_by_name(tmp_path: Path) -> None:
    fit(network(), squared, batches, PLAIN, tmp_path, stop=stopping_after(5), identity={"data": "a"})
    for changed, said in [
        (dataclasses.replace(PLAIN, learning_rate=0.5), "learning_rate was 0.02 and is now 0.5"),
        (dataclasses.replace(PLAIN, seed=7), "seed was 0 and is now 7"),
    ]:
        with pytest.raises(LexergyError, match=said):
            fit(network(), squared, batches, changed, tmp_path, identity={"data": "a"})
    with pytest.raises(LexergyError, match="data was 'a' and is now 'b'"):
        fit(network(), squared, batches, PLAIN, tmp_path, identity={"data": "b"})
    shown = dataclasses.replace(PLAIN, keep=5, checkpoint_seconds=3.0, checkpoint_steps=4)
    assert fit(network(), squared, batches, shown, tmp_path, identity={"data": "a"}).step == 12


def test_a_full_disk_keeps_the_last_checkpoint_and_the_run_goes_on_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dataclasses.replace(PLAIN, checkpoint_steps=4)
    straight, resumed = network(), network()
    whole = fit(straight, squared, batches, settings)
    write, calls = files.save_file, iter(range(100))

    def full(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        if next(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(tensors, path, metadata=metadata)

    with monkeypatch.context() as patch:
        patch.setattr(files, "save_file", full)
        with pytest.raises(LexergyError, match="No space left on device"):
            fit(resumed, squared, batches, settings, tmp_path)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000004"]
    resumed = network()
    assert fit(resumed, squared, batches, settings, tmp_path) == whole
    assert same(straight, resumed)


def test_checkpoints_follow_the_clock(tmp_path: Path) -> None:
    fit(network(), squared, batches, dataclasses.replace(PLAIN, checkpoint_seconds=0.0, keep=50), tmp_path)
    assert len(list((tmp_path / "checkpoints").iterdir())) == 12


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


TWO = """
import json, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import torch
torch.set_num_threads(1)
from test_training_loop import *

def rows(index):
    x, y = batches(index // 4, rows=8)
    return x[index % 4 :: 4], y[index % 4 :: 4]

model = network(0.0)
settings = dataclasses.replace(PLAIN, accumulate=2, checkpoint_steps=4)
if not (Path(sys.argv[1]) / "checkpoints").exists():
    fit(model, squared, rows, settings, Path(sys.argv[1]), held_out, stop=lambda: True)
fit(model, squared, rows, settings, Path(sys.argv[1]), held_out)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_train_as_one_does_on_their_batches_together(tmp_path: Path) -> None:
    places = [str(Path(__file__).parent), *[p for p in sys.path if p.endswith("src")]]
    script = tmp_path / "two.py"
    script.write_text(TWO)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ran = subprocess.run(
        [*launch, str(script), str(tmp_path / "run"), *places], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    whole = json.loads((tmp_path / "run" / "history.json").read_text())
    one = network(0.0)
    alone = fit(one, squared, lambda index: batches(index, rows=8), PLAIN, None, held_out)
    for a, b in zip(alone.records, whole["records"], strict=True):
        assert b == pytest.approx(a, rel=1e-4)
    written = files.read_tensors(tmp_path / "run" / "checkpoints" / "step-000012" / "model.safetensors")
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, written[name], rtol=1e-4, atol=1e-5)
