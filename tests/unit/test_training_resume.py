"""Stopped, killed or short of disk, then resumed: equal to the run that went straight through, to the bit."""

import dataclasses
import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor
from training_task import PLAIN, Batch, batches, held_out, network, same, squared, stopping_after

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.training.history import History
from lexergy.training.loop import fit


@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "constant"])
@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("at", [5, 8])
def test_stopped_and_resumed_equals_straight_through(tmp_path: Path, schedule: str, accumulate: int, at: int) -> None:
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


KILLED = """
import dataclasses, os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import torch
torch.set_num_threads(1)
from training_task import *
from lexergy.core import files
from lexergy.training.loop import fit
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


TWO = """
import dataclasses, os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import torch
torch.set_num_threads(1)
from training_task import *
from lexergy.training.loop import fit

def rows(index):
    x, y = batches(index // 4, rows=8)
    return x[index % 4 :: 4], y[index % 4 :: 4]

model = network(0.0)
settings = dataclasses.replace(PLAIN, accumulate=2, checkpoint_steps=4)
if not (Path(sys.argv[1]) / "checkpoints").exists():
    fit(model, squared, rows, settings, Path(sys.argv[1]), held_out, stop=lambda: True)
fit(model, squared, rows, settings, Path(sys.argv[1]), held_out)
torch.distributed.barrier()
# Tearing gloo's threads down can abort a process whose work is done; what is tested here is the work.
sys.stdout.flush()
os._exit(0)
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
