"""Peak memory of scoring 100,000 short texts against that of 10,000: each in a process of its own, through the command line.

python benchmarks/scoring_memory.py
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import write
from lexergy.core.random import Keyed, seeded
from lexergy.energies.bag import Bag
from lexergy.report.results import Row
from lexergy.text.tokenisers import train_tokenizer

WORDS = (
    "the",
    "council",
    "voted",
    "on",
    "new",
    "plans",
    "for",
    "old",
    "roads",
    "while",
    "rain",
    "fell",
    "over",
    "town",
)


def peak(energy: Path, file: Path) -> float:
    """Megabytes that a process scoring a file held at most."""
    program = (
        "import resource, sys; from lexergy.cli.main import run\n"
        f"sys.argv = ['lexergy', 'score', '--energy', {str(energy)!r}, {str(file)!r}]\n"
        "try: run()\nexcept SystemExit: pass\n"
        "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return int(done.stderr.strip().split()[-1]) / 1024


def main() -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tokenizer = train_tokenizer([" ".join(WORDS)] * 10, 400)
        with seeded(0):
            energy = Bag(tokenizer)
        energy.save_pretrained(place / "energy")
        found = {}
        for count in (10_000, 100_000):
            picks = Keyed.of(0, "texts").integers(len(WORDS), 8 * count)[0].view(count, 8).tolist()
            file = place / f"{count}.txt"
            file.write_text("\n".join(" ".join(WORDS[i] for i in row) for row in picks) + "\n")
            found[count] = sorted(peak(place / "energy", file) for _ in range(3))[1]
    few, many = found[10_000], found[100_000]
    row = Row(
        "scoring 100,000 short texts", "peak memory, MB", few / many, ours=many, other=few, other_name="10,000 of them",
        ratio=few / many, peak_memory_ratio=many / few, dtype="float32", checkpoint="bag of tokens", n=3,
    )  # fmt: skip
    note = f"100,000 texts take {many:.0f} MB at most, 10,000 take {few:.0f} MB: {many / few:.3f} times as much. Medians of three."
    write(
        "benchmarks/scoring-memory", "Scoring 100,000 short texts takes at most 1.05 times the memory of 10,000",
        {"name": "random words", "texts": 100_000}, [row], many <= 1.05 * few, note, time.monotonic() - begun, "tiny",
    )  # fmt: skip


if __name__ == "__main__":
    main()
