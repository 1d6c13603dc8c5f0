"""The folder is the registry: a file is a component, listed without being run."""

import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import lexergy
from lexergy import catalog
from lexergy.core.errors import LexergyError
from lexergy.core.laws import LAWS

COMPONENTS = [(room, name) for room in LAWS for name in catalog.available(room)]


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that has one room of its own, energies, seen by the catalog instead of ours."""
    folder = tmp_path / "energies"
    folder.mkdir()
    monkeypatch.setattr(lexergy, "__path__", [str(tmp_path)])
    package = sys.modules.get("lexergy.energies") or importlib.import_module("lexergy.energies")
    monkeypatch.setattr(package, "__path__", [str(folder)])
    yield folder
    for name in [name for name in sys.modules if name.startswith("lexergy.energies.planted")]:
        del sys.modules[name]


def test_a_new_file_is_a_new_component(room: Path) -> None:
    (room / "planted.py").write_text(
        '"""A planted energy. More.\n\nPage.\n"""\n\n\nclass Planted:\n    """It."""\n\n\n'
        "def tiny():\n    return Planted()\n"
    )
    (room / "base.py").write_text('"""Shared."""\n')
    (room / "_own.py").write_text('"""Private."""\n')
    assert catalog.available("energies") == {"planted": "A planted energy. More."}
    assert catalog.load("energies", "planted").__name__ == "Planted"
    assert type(catalog.tiny("energies", "planted")).__name__ == "Planted"


def test_listing_runs_nothing(room: Path) -> None:
    (room / "planted.py").write_text('"""Would fail."""\nraise RuntimeError\n')
    assert catalog.available("energies") == {"planted": "Would fail."}


def test_a_file_with_two_components_or_without_tiny_is_refused(room: Path) -> None:
    (room / "planted_two.py").write_text("class A: ...\n\n\nclass B: ...\n")
    with pytest.raises(LexergyError, match="defines A, B"):
        catalog.load("energies", "planted_two")
    with pytest.raises(LexergyError, match=r"has no tiny\(\)"):
        catalog.tiny("energies", "planted_two")


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(LexergyError, match="Did you mean 'transformer'"):
        catalog.load("energies", "transfomer")
    with pytest.raises(LexergyError, match="Did you mean 'energies'"):
        catalog.available("energy")


def test_listing_loads_no_torch() -> None:
    code = "import sys; from lexergy import catalog; catalog.available('energies'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(("room_name", "name"), COMPONENTS, ids=[f"{r}/{n}" for r, n in COMPONENTS])
def test_a_component_has_a_page_a_law_and_a_tiny(room_name: str, name: str) -> None:
    assert catalog.available(room_name)[name].endswith((".", ":")) or catalog.available(room_name)[name]
    component = catalog.load(room_name, name)
    assert vars(component).get("law", getattr(component, "law", None)) in LAWS[room_name]
    assert inspect.isfunction(vars(catalog.module(room_name, name))["tiny"])
