"""Kill a training run at ten random moments; resumed each time, it must equal the straight run to the bit.

    python benchmarks/resume.py [--seed 0] [--kills 10] [--steps 300]

A small transformer with dropout, accumulation and validation writes a checkpoint every two steps, so that
some of the moments fall inside a write. Prints one JSON object; exits with 1 where the two runs differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from compare import write
from lexergy.core import files, random
from lexergy.report.results import Row
from lexergy.training.history import History
from lexergy.training.loop import fit
from lexergy.training.settings import Settings


class Network(nn.Module):
    """Two layers that predict the next of 64 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 48)
        layer = nn.TransformerEncoderLayer(48, 2, 96, dropout=0.2, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(48, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Logits at every position."""
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.body(self.embedding(ids), mask=mask, is_causal=True))


def batches(index: int) -> Tensor:
    """Texts that count on from a random token, keyed by the index."""
    start = random.Keyed.of(5, index).integers(64, 8).view(8, 1)
    return (start + torch.arange(16)) % 64


def loss_of(model: nn.Module, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the next token."""
    logits = model(ids[:, :-1])
    hits = (logits.argmax(-1) == ids[:, 1:]).float().mean()
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()), {"accuracy": hits}


def train(out: Path, steps: int, say: bool = False) -> History:
    """The run; a word on standard output when its first batch is asked for."""
    torch.set_num_threads(1)
    settings = Settings(
        steps=steps,
        learning_rate=1e-3,
        warmup=10,
        accumulate=2,
        dtype="float32",
        device="cpu",
        checkpoint_steps=2,
        validate_every=25,
        quiet=True,
    )
    with random.seeded(0, "network"):
        model = Network()
    begun = not say

    def told(index: int) -> Tensor:
        nonlocal begun
        if not begun:
            begun = True
            sys.stdout.write("begun\n")
            sys.stdout.flush()
        return batches(index)

    return fit(model, loss_of, told, settings, out, lambda m: {"loss": float(loss_of(m, batches(10**6))[0])})


def start(out: Path, steps: int) -> subprocess.Popen[str]:
    """A process that trains, from its first batch on."""
    command = [sys.executable, __file__, "--steps", str(steps), "--child", str(out)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def equal(a: Path, b: Path, steps: int) -> bool:
    """Whether two finished runs have the same weights, moments and history, to the bit."""
    mine, theirs = (place / "checkpoints" / f"step-{steps:06d}" for place in (a, b))
    names = ("model.safetensors", "optimiser.safetensors")
    histories = [History.from_json(files.read_json(place / "history.json")) for place in (a, b)]
    return all(files.sha256(mine / n) == files.sha256(theirs / n) for n in names) and histories[0] == histories[1]


def measure(seed: int, kills: int, steps: int, folder: Path) -> dict[str, object]:
    """The straight run, the killed one, and whether they are equal."""
    began = time.monotonic()
    straight = train(folder / "straight", steps)
    moments = random.Keyed.of(seed, "moments").uniform(kills)[0].tolist()
    out, inside, done = folder / "killed", 0, []
    for moment in moments:
        child = start(out, steps)
        # On average the ten parts between the kills are as long as the straight run.
        time.sleep(2 * moment * straight.seconds / (kills + 1))
        child.kill()
        if child.wait() == 0:
            raise SystemExit("A run ended before it was killed: give more --steps.")
        places = [p.name for p in (out / "checkpoints").glob("*")] if out.exists() else []
        inside += any(name.endswith(".part") for name in places)
        done.append(max((int(name[5:]) for name in places if name.startswith("step-")), default=0))
    last = start(out, steps)
    if last.wait() != 0:
        raise SystemExit("The last part did not end well.")
    return {
        "equal": equal(folder / "straight", out, steps),
        "kills": kills,
        "inside_a_write": inside,
        "reached": done,
        "steps": steps,
        "seed": seed,
        "torch": str(torch.__version__),
        "threads": 1,
        "dtype": "float32",
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child is not None:
        train(asked.child, asked.steps, say=True)
        return
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(asked.seed, asked.kills, asked.steps, Path(folder))
    print(json.dumps(result))
    held = bool(result["equal"])
    row = Row("runs killed and resumed", "equal to the straight run, to the bit", float(held), n=asked.kills)
    note = (
        f"Killed with SIGKILL {asked.kills} times, {result['inside_a_write']} of them inside a checkpoint's write; weights, "
        f"moments and history are {'' if held else 'not '}those of the straight run."
    )
    claim = "A run killed at ten random moments and resumed each time equals the straight run to the bit, on a CPU"
    data = {"name": "counting ids", "steps": asked.steps}
    write("benchmarks/resume", claim, data, [row], held, note, time.monotonic() - begun, "tiny")
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
