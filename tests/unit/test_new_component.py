"""To add a component is to add one file: with no other edit it is listed, checked by the contracts, and on its room's page."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

EXTRA = '''"""An extra energy: E(x) = a tenth of the number of free tokens.

Relations: equals a bag of tokens whose weights are all 0.1.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor

from lexergy.core import toy
from lexergy.core.types import Tokens
from lexergy.energies.base import Energy
from lexergy.text.tokenisers import character_tokenizer


@final
class Extra(Energy):
    """A tenth of the length."""

    def forward(self, tokens: Tokens) -> Float[Tensor, "batch"]:
        return 0.1 * (tokens.free & tokens.mask).sum(1).double()


def tiny() -> Extra:
    """Over the toy alphabet."""
    energy = Extra()
    energy.tokenizer = character_tokenizer(toy.LETTERS)
    return energy
'''


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its contract tests, and one file more."""
    root = tmp_path_factory.mktemp("copied")
    for part in ("src/lexergy", "tests/contracts", "docs"):
        ignored = shutil.ignore_patterns("__pycache__", "_build", "rooms")
        shutil.copytree(ROOT / part, root / part, ignore=ignored)
    for file in ("conftest.py", "typechecker.py"):
        shutil.copy(ROOT / "tests" / file, root / "tests" / file)
    (root / "src" / "lexergy" / "energies" / "extra.py").write_text(EXTRA, encoding="utf-8")
    return root


def run(copied: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(copied / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=copied, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_is_listed(copied: Path) -> None:
    shown = run(copied, "-c", "from lexergy.cli.main import run; run()", "list", "energies", "--json")
    assert '"extra"' in shown
    assert "An extra energy" in shown


def test_it_is_on_the_page_of_its_room(copied: Path) -> None:
    run(copied, "docs/rooms.py")
    page = (copied / "docs" / "rooms" / "energies.md").read_text(encoding="utf-8")
    assert "| [`extra`](#energies-extra) | An extra energy" in page
    assert "A tenth of the length." in page


@pytest.mark.slow
def test_it_is_checked(copied: Path) -> None:
    test = "tests/contracts/test_contracts.py::test_component_keeps_its_law[energies/extra]"
    assert "1 passed" in run(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
