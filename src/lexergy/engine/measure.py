"""How fast this machine multiplies, by dtype and by batch, and where that is remembered.

Equations: rate = 2·n·d·f / seconds of (n × d)·(d × f); a sweep is the rate of linear, gelu, linear on
n = 512, 1024, … tokens. Seconds are the least of many short tries, because whatever else a machine does only
adds to them: where threads wait for one another and another program runs, a usual try takes ten times the
least. Such a measurement is marked as not steady, and believed for ten minutes only. At most two seconds in
all on two idle cores, however wide the model and however slow a dtype.

Relations: `engine.probe` chooses from these numbers. Not to be confused with a benchmark.
"""

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from lexergy.core.cache import cache_folder
from lexergy.core.errors import LexergyError
from lexergy.core.files import read_json, write_json
from lexergy.core.random import seeded
from lexergy.engine.machine import fingerprint, free_memory

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16}

_FORMAT: Final = 1
_ONE_PRODUCT: Final = 0.008  # seconds: a longer one is tried on fewer rows, to fit between interruptions
_TRYING: Final = 0.4  # seconds for the products of all dtypes, once their rows are chosen
_SWEEP: Final = 0.9  # seconds for the whole sweep over batch sizes
_TRIES: Final = (3, 40)  # of one product, at least and at most
_SPREAD: Final = 1.5  # median try over least try: above this something else was running
_SHARE: Final = 0.9  # of its threads' time that the process was given: below this something else was running
_DOUBTFUL: Final = 600.0  # seconds for which a measurement that was not steady is believed
_MOST_CUDA: Final = 65_536  # rows, so that a product takes longer than its launch
_WIDEST: Final = 2048  # beyond this a wider matrix changes no rate, and costs only time and memory to make


class Measured:
    """What was measured on a device for a width and a feed-forward width: remembered, or made now and kept.

    Depth and words change no rate, so models that differ only in those share it. `fresh` forgets it.
    """

    def __init__(self, device: str, width: int, feedforward: int, fresh: bool = False) -> None:
        self.device = device
        self.machine = fingerprint(device)
        self.width, self.feedforward = min(width, _WIDEST), min(feedforward, 4 * _WIDEST)
        self.rates: dict[str, float] = {}
        self.steady, self.when = True, 0.0
        self._sweeps: dict[str, dict[int, float]] = {}
        name = hashlib.sha256(json.dumps(self.machine, sort_keys=True).encode()).hexdigest()[:16]
        self.file = cache_folder() / "probe" / f"{name}-{self.width}x{self.feedforward}.json"
        if not fresh:
            self._recall()
        if not self.rates:
            self.rates, self.steady = measure_rates(self.width, self.feedforward, device)
            self.when = time.time()
            self._keep()

    def sweep(self, dtype: str) -> dict[int, float]:
        """GFLOP/s by number of tokens."""
        if dtype not in self._sweeps:
            free = free_memory(self.device)
            self._sweeps[dtype] = measure_sweep(
                self.width, self.feedforward, dtype, self.device, self.rates[dtype], free
            )
            self._keep()
        return self._sweeps[dtype]

    def _recall(self) -> None:
        """Believe a file only if it is whole, of this format and this machine; else it is written anew."""
        try:
            said = read_json(self.file)
            if said["format"] != _FORMAT or said["machine"] != self.machine:
                return
            steady, when = bool(said["steady"]), float(said["when"])
            if not steady and not 0 <= time.time() - when < _DOUBTFUL:
                return
            rates = {name: float(said["rates"][name]) for name in DTYPES}
            sweeps = {
                name: {int(count): float(rate) for count, rate in said["sweeps"][name].items()}
                for name in DTYPES
                if said["sweeps"].get(name)
            }
        except (LexergyError, OSError, LookupError, TypeError, ValueError, AttributeError):
            return
        every = [*rates.values(), *(rate for sweep in sweeps.values() for rate in sweep.values())]
        if all(0 < rate < math.inf for rate in every):
            self.rates, self._sweeps, self.steady, self.when = rates, sweeps, steady, when

    def _keep(self) -> None:
        said = {
            "format": _FORMAT,
            "machine": self.machine,
            "steady": self.steady,
            "when": self.when,
            "rates": self.rates,
            "sweeps": self._sweeps,
        }
        try:
            write_json(self.file, said)
        except (LexergyError, OSError):
            return  # a cache folder that cannot be written to costs a second each time, and is no error


@torch.inference_mode()
def measure_rates(width: int, feedforward: int, device: str) -> tuple[dict[str, float], bool]:
    """GFLOP/s of the feed-forward part's first product in each dtype, and whether it was undisturbed."""
    runs: dict[str, Callable[[], Tensor]] = {}
    rows: dict[str, int] = {}
    times: dict[str, list[float]] = {}
    most = _MOST_CUDA if device.startswith("cuda") else 1024
    for name, dtype in DTYPES.items():
        weight = _numbers(width, feedforward, device, dtype)
        inputs = _numbers(32, width, device, dtype).repeat(most // 32, 1)
        # A dtype that is only emulated can be a hundred times slower: rows are added while they are cheap.
        rows[name] = 32
        while True:
            runs[name] = lambda x=inputs[: rows[name]], w=weight: x @ w
            taken = _warm(runs[name], device)
            if rows[name] == most or 2 * taken > _ONE_PRODUCT:
                break
            rows[name] *= 2
        times[name] = []
    # In turn, so that whatever else the machine does meanwhile falls on both.
    least, most_tries = _TRIES
    start, used = time.perf_counter(), time.process_time()
    for tried in range(most_tries):
        if tried >= least and time.perf_counter() - start > _TRYING:
            break
        for name, run in runs.items():
            times[name].append(_seconds(run, device))
    share = (time.process_time() - used) / (time.perf_counter() - start) / torch.get_num_threads()
    # Only Linux's products are known to keep all threads at work; a GPU's keep one.
    held_back = sys.platform == "linux" and device == "cpu" and share < _SHARE
    agreed = all(_median(tries) < _SPREAD * min(tries) for tries in times.values())
    rates = {name: 2 * rows[name] * width * feedforward / min(times[name]) / 1e9 for name in runs}
    return rates, agreed and not held_back


@torch.inference_mode()
def measure_sweep(
    width: int, feedforward: int, dtype: str, device: str, rate: float, free: int | None
) -> dict[int, float]:
    """GFLOP/s of linear, gelu, linear by number of tokens, as far as time and a quarter of free memory go.

    `rate`: that of one product. Where even the smallest batch would take too long, it stands for the sweep.
    """
    kind = DTYPES[dtype]
    work = 4 * width * feedforward / 1e9
    if 512 * work / rate > _SWEEP:
        return {512: rate}
    up, down = _numbers(feedforward, width, device, kind), _numbers(width, feedforward, device, kind)
    some = _numbers(512, width, device, kind)
    most = _MOST_CUDA if device.startswith("cuda") else 16_384
    rates: dict[int, float] = {}
    start, count, taken = time.perf_counter(), 512, 0.0
    while count <= most:
        spent = time.perf_counter() - start
        held = kind.itemsize * count * 2 * (width + feedforward)
        if rates and (spent + 2 * taken * 3 > _SWEEP or (free is not None and held > free // 4)):
            break
        inputs = some.repeat(count // 512, 1)

        def step(x: Tensor = inputs) -> Tensor:
            inner = torch.nn.functional.gelu(torch.nn.functional.linear(x, up))
            return torch.nn.functional.linear(inner, down)

        taken = _warm(step, device)
        rates[count] = count * work / taken
        count *= 2
    return rates


def _numbers(rows: int, columns: int, device: str, dtype: torch.dtype) -> Tensor:
    with seeded(0, "probe"):
        return torch.rand(rows, columns).sub_(0.5).to(device, dtype)


def _warm(run: Callable[[], Tensor], device: str) -> float:
    """The least seconds of three tries: the first makes kernels and buffers, any may be interrupted."""
    return min(_seconds(run, device) for _ in range(3))


def _seconds(run: Callable[[], Tensor], device: str) -> float:
    start = time.perf_counter()
    run()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return max(time.perf_counter() - start, 1e-9)


def _median(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]
