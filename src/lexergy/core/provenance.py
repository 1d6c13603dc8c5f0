"""Where a number came from: commit, dirty flag, seed, versions, device, command, time.

Every report opens with it and every results file carries it. Nothing here loads torch: versions are read from
the installed packages' metadata, and the accelerator is named only if torch is loaded already.
"""

import datetime
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RELATED: Final = ("torch", "transformers", "tokenizers", "numpy")
"""The packages besides our own whose versions can change a number."""

_MATRIX_FLAGS: Final = {
    "amx_bf16": "AMX-BF16",
    "avx512_bf16": "AVX512-BF16",
    "avx512f": "AVX512",
    "avx2": "AVX2",
    "bf16": "BF16",
    "asimd": "NEON",
}
"""What decides a CPU's matrix rate, the best first."""


@dataclass(frozen=True)
class Provenance:
    """What made something: enough to make it again.

    `commit`: the commit of the library's own source, or `lexergy <version>` where it does not run from a
    repository. `dirty`: whether the source differed from that commit; None where there is no repository.
    `when`: UTC, to the second.
    """

    commit: str
    dirty: bool | None
    seed: int | None
    versions: dict[str, str]
    device: str
    command: str
    when: str


def provenance(seed: int | None = None, *, command: str | None = None, device: str | None = None) -> Provenance:
    """The provenance of this very run.

    `command`: the command line if not given. `device`: a torch device name such as "cpu" or "cuda:0",
    described in words; if not given, the GPU if this process has used one, else the CPU.
    """
    commit, dirty = _commit()
    return Provenance(
        commit=commit,
        dirty=dirty,
        seed=seed,
        versions=versions(),
        device=describe_device(device),
        command=_command() if command is None else command,
        when=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )


def versions() -> dict[str, str]:
    """The versions of Python, of this library, and of the packages that can change a number."""
    found = {"python": platform.python_version(), "lexergy": _own_version()}
    for name in RELATED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe_device(device: str | None = None) -> str:
    """A device in words: "2 cores AVX512-BF16", or the name of the GPU."""
    torch = sys.modules.get("torch")
    if device is None:
        device = "cuda" if torch is not None and torch.cuda.is_initialized() else "cpu"
    if device.startswith("cuda") and torch is not None:
        return str(torch.cuda.get_device_name(device))
    return _cpu() if device == "cpu" else device


def _cpu() -> str:
    """How many cores this process may use, and their best matrix instructions."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    counted = f"{cores} core" if cores == 1 else f"{cores} cores"
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{counted} {platform.machine()}"
    flags = {flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()}
    best = next((shown for flag, shown in _MATRIX_FLAGS.items() if flag in flags), platform.machine())
    return f"{counted} {best}"


def _own_version() -> str:
    # Not from the metadata: that of an editable install is as old as the install.
    return str(sys.modules["lexergy"].__version__)


def _command() -> str:
    """The command line, the program by its name and not by its place."""
    program = Path(sys.argv[0] or "python").name
    return shlex.join(["lexergy" if program == "__main__.py" else program, *sys.argv[1:]])


def _commit() -> tuple[str, bool | None]:
    """The commit of the library's source and whether the source differs from it."""
    here = Path(__file__).resolve()
    # A virtual environment inside somebody's repository holds our files, but they are not that repository's.
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        # A tree that was copied without its repository can be told which commit it is: LEXERGY_COMMIT=… on that machine.
        copied = os.environ.get("LEXERGY_COMMIT")
        return (copied, False) if copied else (f"lexergy {_own_version()}", None)
    head = _git(here.parent, "rev-parse", "HEAD")
    # Results are what runs write: one run must not make the next one dirty.
    changes = _git(here.parent, "status", "--porcelain", "--", ":/", ":(top,exclude)results")
    if head is None or changes is None:
        return f"lexergy {_own_version()}", None
    return head.strip(), changes.strip() != ""


def _git(folder: Path, *arguments: str) -> str | None:
    """What git says about a folder; None where there is no git, no repository or no commit."""
    # Inside a git hook these variables point at whichever repository the hook runs for.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
