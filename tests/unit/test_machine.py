"""The memory that is free is what can be had without being killed; a fingerprint tells two machines apart."""

from pathlib import Path

import pytest
import torch

from lexergy.core.cache import cache_folder
from lexergy.engine.machine import cores, fingerprint, free_memory, processor


def machine(root: Path, files: dict[str, str]) -> Path:
    """A file tree that looks like a system's."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


AVAILABLE = {"proc/meminfo": "MemTotal:       2000 kB\nMemFree:         100 kB\nMemAvailable:   1000 kB\n"}


def test_available_memory_is_not_the_free_line(tmp_path):
    assert free_memory("cpu", machine(tmp_path, AVAILABLE)) == 1000 * 1024


def test_a_container_by_version_two_may_use_less_and_its_file_cache_counts_as_free(tmp_path):
    root = machine(
        tmp_path,
        {
            **AVAILABLE,
            "proc/self/cgroup": "0::/box/inner/deepest\n",
            "sys/fs/cgroup/box/inner/deepest/memory.max": "max\n",
            "sys/fs/cgroup/box/inner/deepest/memory.current": "10000\n",
            "sys/fs/cgroup/box/inner/memory.max": "900000\n",
            "sys/fs/cgroup/box/inner/memory.current": "10000\n",
            "sys/fs/cgroup/box/memory.max": "500000\n",
            "sys/fs/cgroup/box/memory.current": "300000\n",
            "sys/fs/cgroup/box/memory.stat": "anon 200000\ninactive_file 50000\n",
        },
    )
    assert free_memory("cpu", root) == 250_000


def test_a_container_by_version_one_whose_path_is_the_hosts(tmp_path):
    root = machine(
        tmp_path,
        {
            **AVAILABLE,
            "proc/self/cgroup": "7:blkio:/\n4:memory:/docker/1234\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "400000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "150000\n",
            "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 20000\n",
        },
    )
    assert free_memory("cpu", root) == 270_000


def test_a_group_without_a_limit_leaves_what_the_kernel_says(tmp_path):
    root = machine(
        tmp_path,
        {
            **AVAILABLE,
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "150000\n",
        },
    )
    assert free_memory("cpu", root) == 1000 * 1024


def test_a_system_that_does_not_say(tmp_path):
    assert free_memory("cpu", tmp_path) is None


def test_processors_differ_by_their_instructions(tmp_path):
    plain = machine(tmp_path / "a", {"proc/cpuinfo": "model name\t: CPU 1\nflags\t\t: sse avx\n"})
    newer = machine(tmp_path / "b", {"proc/cpuinfo": "model name\t: CPU 1\nflags\t\t: sse avx avx512_bf16\n"})
    assert processor(plain)[0] == processor(newer)[0] == "CPU 1"
    assert processor(plain)[1] != processor(newer)[1]
    assert processor(plain) == processor(plain)


def test_a_fingerprint_holds_what_a_rate_depends_on(monkeypatch):
    before = fingerprint("cpu")
    assert before == fingerprint("cpu")
    assert before["cores"] == cores() >= 1
    assert before["device"] == "cpu"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 97)
    assert fingerprint("cpu") != before


def test_the_cache_folder_is_the_users_choice_then_the_platforms(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LEXERGY_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("LEXERGY_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "lexergy"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == tmp_path / ".cache" / "lexergy"
    assert not cache_folder().exists()


@pytest.mark.gpu
def test_memory_of_a_gpu():
    assert (free_memory("cuda") or 0) > 0
    assert fingerprint("cuda")["device"] == torch.cuda.get_device_name()
