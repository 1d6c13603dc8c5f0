"""The docstring corpus: there, mixed, the same each time, and read without running anything."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from lexergy.core.errors import LexergyError
from lexergy.text.corpus import read_corpus
from lexergy.text.docstrings import docstrings


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package on the path that would fail if it were run."""
    root = tmp_path / "planted_package"
    (root / "deep").mkdir(parents=True)
    (root / "tests").mkdir()
    words = " ".join(f"word{i}" for i in range(20))
    (root / "__init__.py").write_text(f'"""Module.\n\n    {words}\n      indented\n    """\nraise SystemExit\n')
    (root / "deep" / "inner.py").write_text(
        f'class A:\n    """{words} A."""\n    def f(self):\n        """Too short."""\n'
        f'        async def g():\n            r"""{words} \\d g."""\n'
    )
    (root / "deep" / "broken.py").write_text('"""open')
    (root / "deep" / "latin.py").write_bytes(b'"""\xe9"""')
    (root / "deep" / "escape.py").write_text(f'"""{words} \\ud800"""')
    (root / "tests" / "test_a.py").write_text(f'"""{words} test."""')
    monkeypatch.syspath_prepend(str(tmp_path))
    return root.name


def test_docstrings_are_found_cleaned_and_grouped(package: str) -> None:
    documents = {one.name: one for one in docstrings(packages=[package], standard_library=False)}
    assert set(documents) == {package, f"{package}.deep.inner.A", f"{package}.deep.inner.A.f.g"}
    assert documents[package].text.startswith("Module.\n\nword0 word1")
    assert documents[package].text.endswith("\n  indented")
    assert documents[f"{package}.deep.inner.A.f.g"].group == f"{package}.deep.inner"
    assert package not in sys.modules


def test_the_first_words_are_a_mixture_and_the_same_each_time() -> None:
    first = list(read_corpus("docstrings", limit_words=20_000))
    words = sum(len(one.text.split()) for one in first)
    assert 20_000 <= words < 25_000
    assert first == list(islice(docstrings(), len(first)))
    roots = {one.group.split(".")[0] for one in first}
    assert {"torch", "transformers"} <= roots
    assert len(roots) > 3
    assert all(len(one.text.split()) >= 16 and one.text == one.text.strip() for one in first)


def test_nothing_is_imported() -> None:
    code = (
        "import sys; from lexergy.text.docstrings import docstrings; n = sum(1 for _ in docstrings(2000));"
        "assert n; assert not {'torch', 'transformers', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_package_that_is_absent_is_named() -> None:
    with pytest.raises(LexergyError, match="'no_such_package', which is not installed"):
        docstrings(packages=["no_such_package"])
    with pytest.raises(LexergyError, match="No docstring of 16 words"):
        list(docstrings(packages=[], standard_library=False))
