"""How long `lexergy --help` takes, and that neither it nor `import lexergy` loads torch.

python benchmarks/start_up.py
"""

import subprocess
import sys
import time
from pathlib import Path

from compare import alternate, write
from lexergy.report.results import Row

PROGRAM = Path(sys.executable).parent / "lexergy"
TURNS = 11


def main() -> None:
    begun = time.monotonic()
    sides = {
        "ours": lambda: subprocess.run([PROGRAM, "--help"], check=True, capture_output=True),
        "bare": lambda: subprocess.run([sys.executable, "-c", "import typer, rich"], check=True),
    }
    found = alternate(sides, TURNS)
    probe = "import sys, lexergy, lexergy.cli.main; sys.exit('torch' in sys.modules)"
    torchless = subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
    ours, bare = found["ours"].median, found["bare"].median
    row = Row(
        "lexergy --help", "seconds", ratio := bare / ours, ours=ours, other=bare, other_name="python importing typer and rich",
        ratio=ratio, floor=bare, share_of_floor=ratio, dtype="none", checkpoint="none", n=TURNS,
    )  # fmt: skip
    held = ours < 0.5 and torchless
    note = (
        f"lexergy --help takes {ours:.2f} s ({found['ours'].spread}). Importing the package and its command line loads "
    )
    write(
        "benchmarks/start-up", "lexergy --help answers in under 0.5 s on two cores, and importing lexergy loads no torch",
        {"name": "none"}, [row], held, note + ("no torch." if torchless else "torch."), time.monotonic() - begun, "tiny",
    )  # fmt: skip


if __name__ == "__main__":
    main()
