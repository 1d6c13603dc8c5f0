"""What every benchmark shares: run ours and the other turn by turn, take medians, print the ratio, write the results file."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lexergy.report.results import Result, Row, write_result

RESULTS = Path(__file__).parent.parent / "results"


@dataclass(frozen=True)
class Timing:
    """Seconds of each turn; `first`: of the one before them, which compiles and fills caches."""

    seconds: tuple[float, ...]
    first: float

    @property
    def median(self) -> float:
        """The middle turn."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> str:
        """Fastest to slowest, in words."""
        return f"{min(self.seconds):.3g} to {max(self.seconds):.3g} s"


def alternate(sides: Mapping[str, Callable[[], object]], turns: int, device: str = "cpu") -> dict[str, Timing]:
    """Each side once unmeasured, then all sides in turn, again and again: whatever drifts, drifts for all."""

    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    def timed(run: Callable[[], object]) -> float:
        wait()
        begun = time.perf_counter()
        run()
        wait()
        return time.perf_counter() - begun

    first = {name: timed(run) for name, run in sides.items()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(turns):
        for name, run in sides.items():
            seconds[name].append(timed(run))
    return {name: Timing(tuple(found), first[name]) for name, found in seconds.items()}


def matrix_rate(width: int, dtype: torch.dtype, device: str = "cpu", rows: int = 4096) -> float:
    """Operations a second of a plain product (rows × width) · (width × 4 width): the ceiling that shares are of."""
    x = torch.randn(rows, width, dtype=dtype, device=device)
    w = torch.randn(4 * width, width, dtype=dtype, device=device)
    repeats = 20 if device == "cpu" else 200

    def run() -> None:
        for _ in range(repeats):
            torch.nn.functional.linear(x, w)

    best = min(alternate({"product": run}, 7, device)["product"].seconds)
    return 2 * rows * width * 4 * width * repeats / best


def square_rate(dtype: torch.dtype, device: str, side: int = 8192) -> float:
    """Operations a second of a square product: the ceiling of a large accelerator."""
    x = torch.randn(side, side, dtype=dtype, device=device)

    def run() -> None:
        for _ in range(20):
            torch.mm(x, x)

    return 2 * side**3 * 20 / min(alternate({"product": run}, 7, device)["product"].seconds)


def write(
    name: str,
    claim: str,
    data: Mapping[str, Any],
    rows: Sequence[Row],
    held: bool,
    note: str,
    seconds: float,
    size: str = "small",
) -> None:
    """The results file of a benchmark, and a table of it on standard output."""
    result = Result(
        name=name,
        claim=claim,
        source="issue: foundation, numbers",
        command=" ".join(["python", "benchmarks/" + Path(sys.argv[0]).name, *sys.argv[1:]]),
        seed=0,
        data=data,
        compute={"seconds": round(seconds, 1), "size": size},
        rows=rows,
        held=held,
        note=note,
    )
    device = "cuda" if "--device cuda" in " ".join(sys.argv) else None
    write_result(RESULTS / f"{name}.json", result, device=device)
    for row in rows:
        print(json.dumps({k: v for k, v in vars(row).items() if v is not None}))
    print(f"{name}: the claim {'held' if held else 'did not hold'}. {note}")
