"""The docs' pages follow the folders, and a docstring cannot break its page."""

import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "docs" / "rooms.py"


@pytest.fixture(scope="module")
def rooms():
    spec = importlib.util.spec_from_file_location("docs_rooms", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_rooms"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["docs_rooms"]


@pytest.fixture
def package(tmp_path):
    room = tmp_path / "lexergy" / "energies"
    room.mkdir(parents=True)
    (tmp_path / "lexergy" / "__init__.py").write_text('"""The facade."""\n')
    (room / "__init__.py").write_text('"""Tokens to energies."""\n')
    (room / "bag.py").write_text(
        '"""A bag of tokens: E = Σ | w_t.\n\nMore about it.\n"""\n\nSIZE = 3\n"""How large."""\n\n'
        'class Bag(Base):\n    """One number a token."""\n\n    size: int\n\n'
        '    def score(self, text: str, *, n: int = 1) -> float:\n        """Its energy."""\n\n'
        "    def _hidden(self): ...\n\n"
        'def tiny(seed: int = 0) -> Bag:\n    """Over the toy universe."""\n'
    )
    return tmp_path / "lexergy"


def test_a_file_added_to_a_room_is_on_its_page(rooms, package, tmp_path):
    out = tmp_path / "out"
    rooms.write(package, out)
    before = (out / "energies.md").read_text()
    assert "planted" not in before
    (package / "energies" / "planted.py").write_text('"""A planted energy: E = 0."""\n')
    rooms.write(package, out)
    after = (out / "energies.md").read_text()
    assert "| [`planted`](#energies-planted) | A planted energy: E = 0. |" in after
    assert "(energies-planted)=\n## planted" in after
    (package / "energies" / "planted.py").unlink()
    rooms.write(package, out)
    assert (out / "energies.md").read_text() == before


def test_the_page_of_a_room_that_is_gone_goes(rooms, package, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "gone.md").write_text("# gone\n")
    (out / "_results.md").write_text("kept\n")
    rooms.write(package, out)
    assert sorted(file.name for file in out.iterdir()) == ["_results.md", "energies.md", "lexergy.md"]


def test_a_page_shows_names_signatures_and_words(rooms, package):
    text = rooms.page(package / "energies")
    assert text.startswith("# energies\n\nTokens to energies.\n")
    assert "A bag of tokens: E = Σ \\| w_t." in text
    assert "```python\nclass Bag(Base):\n    size: int\n```" in text
    assert "- `score(text, *, n)`: Its energy." in text
    assert "def" not in text
    assert "tiny(seed: int=0) -> Bag" in text
    assert "### SIZE\n\nHow large." in text
    assert "_hidden" not in text


def test_long_signatures_break(rooms):
    import ast

    node = ast.parse(f"def f(a, /, {'b' * 50}: int = 1, *c, d='x', **{'e' * 40}) -> int: ...").body[0]
    lines = rooms.signature(node).splitlines()
    assert lines == [
        "f(",
        "    a,",
        "    /,",
        f"    {'b' * 50}: int = 1,",
        "    *c,",
        "    d='x',",
        f"    **{'e' * 40},",
        ") -> int",
    ]


@pytest.mark.parametrize(
    ("doc", "expected"),
    [
        ("Words.\n\n    a = b [T]\n\n    c\n\nMore.", "Words.\n\n```none\na = b [T]\n\nc\n```\n\nMore."),
        ("*Example*\n\n    f(1)", "*Example*\n\n```python\nf(1)\n```"),
        ("Example:\n    f(1)\nEnd.", "Example:\n\n```python\nf(1)\n```\n\nEnd."),
        (
            "# not a head\n(a)= [B, T] <s> {x}`y` `<s>`",
            "\\# not a head\n\\(a)= \\[B, T\\] \\<s> \\{x\\}`y` `<s>`",
        ),
        ("- one\n    two", "- one\n    two"),
        ("```python\nx[0]\n", "```python\nx[0]\n```"),
    ],
    ids=["equation", "example", "example without a gap", "what only looks like markup", "list", "open fence"],
)
def test_docstrings_become_markdown(rooms, doc, expected):
    assert rooms.markdown(doc) == expected
