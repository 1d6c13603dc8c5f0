"""Every benchmark that this machine can run, one after the other; nothing else may run meanwhile.

python benchmarks/run.py [--device cuda]
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CPU = (["start_up.py"], ["scoring.py"], ["scoring_memory.py"], ["training.py"], ["resume.py"])
CUDA = (["training.py", "--device", "cuda", "--steps", "24", "--turns", "3"],)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    failed = []
    for command in CUDA if arguments.device == "cuda" else CPU:
        print(f"== {' '.join(command)}", flush=True)
        if subprocess.run([sys.executable, str(HERE / command[0]), *command[1:]], check=False).returncode:
            failed.append(command[0])
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
