"""Where a number came from is said truthfully, and saying it costs nothing."""

import subprocess
import sys

import pytest

from lexergy.core import provenance as module
from lexergy.core.provenance import describe_device, provenance, versions


def _repository(tmp_path, track=True):
    """A repository that holds a copy of the module, committed."""
    source = tmp_path / "src" / "provenance.py"
    source.parent.mkdir()
    source.write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("" if track else "src/\n")
    git = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "-c",
        "commit.gpgsign=false",
    ]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    return source, head


def test_it_holds_what_a_reader_asks_for(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/lexergy", "train", "a recipe"])
    found = provenance(7)
    assert found.seed == 7
    assert found.command == "lexergy train 'a recipe'"  # by name, quoted so that it can be pasted
    assert set(found.versions) >= {"python", "lexergy", "torch", "transformers", "tokenizers", "numpy"}
    assert found.versions["torch"] == __import__("torch").__version__
    assert found.when.endswith("UTC")
    assert provenance(command="lexergy demo").command == "lexergy demo"


def test_a_module_run_is_named_by_its_program(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/lexergy/__main__.py", "doctor"])
    assert provenance().command == "lexergy doctor"


def test_commit_and_dirty_flag(tmp_path, monkeypatch):
    source, head = _repository(tmp_path)
    monkeypatch.setattr(module, "__file__", str(source))
    assert (provenance().commit, provenance().dirty) == (head, False)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "a.json").write_text("{}")
    assert provenance().dirty is False  # one run's result must not make the next run dirty
    source.write_text("x = 2\n")
    assert (provenance().commit, provenance().dirty) == (head, True)


def test_a_hook_of_another_repository_does_not_mislead(tmp_path, monkeypatch):
    source, head = _repository(tmp_path)
    monkeypatch.setattr(module, "__file__", str(source))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert provenance().commit == head


def test_somebody_elses_repository_is_not_ours(tmp_path, monkeypatch):
    source, _ = _repository(tmp_path, track=False)
    monkeypatch.setattr(module, "__file__", str(source))
    assert provenance().commit == f"lexergy {versions()['lexergy']}"
    assert provenance().dirty is None


def test_without_git_the_version_stands_in(tmp_path, monkeypatch):
    source, _ = _repository(tmp_path)
    monkeypatch.setattr(module, "__file__", str(source))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance().commit.startswith("lexergy ")


def test_devices_in_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # another test of this process may have used a GPU
    assert describe_device("cpu").split()[1] in ("core", "cores")
    assert describe_device() == describe_device("cpu")  # no GPU was used by this process
    assert describe_device("mps") == "mps"


def test_it_loads_no_torch():
    check = (
        "import sys; from lexergy.core.provenance import provenance; provenance(0); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


@pytest.mark.gpu
def test_a_gpu_is_called_by_its_name():
    import torch

    assert describe_device("cuda") == torch.cuda.get_device_name(0)
