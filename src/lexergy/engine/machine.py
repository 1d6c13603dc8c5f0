"""What machine this is: the cores that may be used, the memory that is free, its fingerprint.

Memory is what can be had without being killed: on a CPU what the kernel calls available, or what the control
group still allows where that is less (a container); on a GPU what its driver says.
"""

import hashlib
import os
import platform
import sys
from pathlib import Path

import torch

_CPU_LINES = ("model name", "flags", "Features", "CPU implementer", "CPU part")


def cores() -> int:
    """How many cores this process may run on."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor(root: Path = Path("/")) -> tuple[str, str]:
    """The processor's name, and a hash of its name and its instructions."""
    said: dict[str, str] = {}
    for line in _read(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _CPU_LINES:
            said.setdefault(name.strip(), value.strip())
    known = said.get("model name") or platform.processor() or platform.machine()
    described = [known, platform.machine(), *(said.get(name, "") for name in _CPU_LINES)]
    return known, hashlib.sha256("\n".join(described).encode()).hexdigest()[:16]


def fingerprint(device: str) -> dict[str, str | int]:
    """All that a measured rate depends on besides the shape: a measurement made elsewhere is not believed."""
    name, instructions = processor()
    return {
        "processor": name,
        "instructions": instructions,
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
    }


def free_memory(device: str = "cpu", root: Path = Path("/")) -> int | None:
    """Bytes that are free on a device, or None where the system does not say."""
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(device)[0])
    stated = [amount for amount in (_available(root), _allowed(root)) if amount is not None]
    return min(stated) if stated else None


def _available(root: Path) -> int | None:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _allowed(root: Path) -> int | None:
    """What the tightest control group above this process still allows, by either version of the interface."""
    mount = root / "sys/fs/cgroup"
    left: list[int] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            base, limit, used, reclaimable = mount, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, limit, used = mount / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            reclaimable = "total_inactive_file"
        else:
            continue
        # Inside a container the path may be the host's, absent from the mount: the mount's own root is
        # asked as well.
        group = base / path.strip("/")
        for folder in [group, *(parent for parent in group.parents if parent.is_relative_to(base))]:
            ceiling, held = _number(folder / limit), _number(folder / used)
            if ceiling is not None and held is not None:
                left.append(max(0, ceiling - held + _statistic(folder / "memory.stat", reclaimable)))
    return min(left) if left else None


def _statistic(path: Path, name: str) -> int:
    """Pages of files count as used but are given back when memory is asked for."""
    for line in _read(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
