"""Shapes are checked while tests run; the machine is pinned; tests that need a GPU are skipped by name where there is none."""

import importlib.util
import os
from pathlib import Path

os.environ.setdefault("LEXERGY_PROBE", "off")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# beartype is a development tool: on a machine without it (a lent GPU, say) the same tests run unchecked.
if importlib.util.find_spec("beartype") is not None:
    from jaxtyping import install_import_hook

    install_import_hook("lexergy", "typechecker.check")

import pytest
import torch

# Neither is hypothesis: files that need it are left out there, or none at all could be collected.
collect_ignore = (
    []
    if importlib.util.find_spec("hypothesis") is not None
    else [
        str(file)
        for file in Path(__file__).parent.rglob("test_*.py")
        if "\nfrom hypothesis " in file.read_text("utf-8")
    ]
)

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def hub_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny models that stand for the Hub's, built once."""
    import hub as small

    cache = tmp_path_factory.mktemp("hub")
    small.build(cache)
    return cache


@pytest.fixture
def hub(hub_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every Hub id of the docs loads a tiny random model of its family; gives the working folder, which has small files."""
    from huggingface_hub import constants

    import hub as small

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub_cache))
    monkeypatch.chdir(tmp_path)  # what an example writes goes where nobody keeps it
    small.files(tmp_path)
    return tmp_path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU, by name, where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason=f"{item.name} needs a CUDA device"))
