"""Recipes: every key is checked by name and type, sizes and --set lie over the file, and the packaged ones parse."""

from pathlib import Path

import pytest

from lexergy.core.errors import LexergyError
from lexergy.recipe import Recipe, read_recipe, recipes

TEXT = """# A recipe of a test
title = "T"
claim = "C"
source = "S"
size = "tiny"

[corpus]
place = "books.txt"

[lm]
steps = 10
learning_rate = 1

[energy]
start = "bag"

[sizes.tiny.lm]
steps = 20

[sizes.small.lm]
steps = 300
size = "small"

[sizes.small.energy]
start = "none"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_file_becomes_a_recipe(file: Path) -> None:
    recipe = read_recipe(file)
    assert (recipe.name, recipe.title, recipe.size) == ("mine", "T", "tiny")
    assert recipe.corpus.place == "books.txt"
    assert recipe.lm.steps == 20  # the size's
    assert recipe.lm.learning_rate == 1.0
    assert isinstance(recipe.lm.learning_rate, float)
    assert recipe.mine == Recipe("n", "t", "c", "s").mine


def test_sizes_lie_over_the_file_and_changes_over_sizes(file: Path) -> None:
    small = read_recipe(file, {"size": "small"})
    assert (small.size, small.lm.steps, small.lm.size, small.energy.start) == ("small", 300, "small", None)
    assert read_recipe(file, ["size=small", "lm.steps=7"]).lm.steps == 7
    with pytest.raises(LexergyError, match=r"Unknown size of mine 'smal'. Did you mean 'small'"):
        read_recipe(file, ["size=smal"])


def test_a_recipes_own_size_needs_no_table(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    own = 'title = "T"\nclaim = "C"\nsource = "S"\n'
    path.write_text(own + 'size = "paper"\n[sizes.tiny.lm]\nsteps = 7\n', encoding="utf-8")
    assert (read_recipe(path).size, read_recipe(path).lm.steps) == ("paper", 2000)
    assert read_recipe(path, ["size=paper"]).size == "paper"
    assert read_recipe(path, ["size=tiny"]).lm.steps == 7
    with pytest.raises(LexergyError, match=r"Unknown size of r 'huge'. There is: paper, tiny"):
        read_recipe(path, ["size=huge"])
    path.write_text(own, encoding="utf-8")
    assert read_recipe(path, ["size=tiny"]) == read_recipe(path)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("lm.steps=5", lambda r: r.lm.steps == 5),
        ({"lm.steps": 5}, lambda r: r.lm.steps == 5),
        ({"lm": {"steps": 5}}, lambda r: r.lm.steps == 5 and r.lm.learning_rate == 1.0),
        (" lm.learning_rate = 3e-4", lambda r: r.lm.learning_rate == 3e-4),
        ("mine.space=fixed", lambda r: r.mine.space == "fixed"),
        ('mine.space="fixed"', lambda r: r.mine.space == "fixed"),
        ("corpus.place=a/b c.txt", lambda r: r.corpus.place == "a/b c.txt"),
        ("energy.start=none", lambda r: r.energy.start is None),
        ("energy.patience=none", lambda r: r.energy.patience is None),
        ("energy.causal=true", lambda r: r.energy.causal is True),
        ("corpus.parts.lm=0.2", lambda r: r.corpus.parts["lm"] == 0.2 and "test" in r.corpus.parts),
        ("pinned=true", lambda r: r.pinned),
    ],
    ids=range(12),
)
def test_what_set_takes(file: Path, change: object, found) -> None:
    text = file.read_text(encoding="utf-8").replace("[lm]", "parts = { lm = 0.5, test = 0.5 }\n\n[lm]")
    file.write_text(text, encoding="utf-8")
    assert found(read_recipe(file, [change] if isinstance(change, str) else change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["lm.stepz=5"], "Unknown key in recipe mine: lm: 'stepz'. Did you mean 'steps'"),
        (["em.steps=5"], "Unknown key in recipe mine: 'em'"),
        (["lm=5"], "mine: lm is a table of settings; received 5"),
        (["lm.steps.x=5"], "mine: lm: steps takes int"),
        (["lm.steps=many"], "mine: lm: steps takes int; received 'many'"),
        (["lm.steps=1.5"], "takes int; received 1.5"),
        (["lm.steps=true"], "takes int; received True"),
        (["lm.steps"], "takes key=value; received 'lm.steps'"),
        (["mine.space=fix"], "Did you mean 'fixed'"),
        (["corpus.place=3"], "takes str; received 3"),
        (["corpus.parts=3"], "parts is a table"),
        (['corpus.parts.lm="a"'], "mine: corpus: parts: lm takes float; received 'a'"),
        (["pinned=1"], "pinned takes bool"),
    ],
    ids=range(13),
)
def test_what_is_wrong_is_named(file: Path, changes: list[str], said: str) -> None:
    with pytest.raises(LexergyError) as caught:
        read_recipe(file, changes)
    assert said in str(caught.value)


def test_files_that_are_no_recipes(tmp_path: Path) -> None:
    for text, said in [
        ('title = "T"', "lacks claim, source"),
        ("title = ", "is not valid TOML"),
        ('title = "T"\nsizes = 3', "sizes is a table of tables"),
        ("stepz = 1", "Unknown key in recipe r: 'stepz'"),
    ]:
        (tmp_path / "r.toml").write_text(text, encoding="utf-8")
        with pytest.raises(LexergyError, match=said):
            read_recipe(tmp_path / "r.toml")
    (tmp_path / "r.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(LexergyError, match="not UTF-8"):
        read_recipe(tmp_path / "r.toml")
    with pytest.raises(LexergyError, match="There is no recipe file"):
        read_recipe(tmp_path / "other.toml")
    with pytest.raises(LexergyError, match="Did you mean 'generation/demo'"):
        read_recipe("generation/dmeo")


@pytest.mark.parametrize("name", recipes())
def test_every_packaged_recipe_parses(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.name == name
    assert recipes()[name]  # what `lexergy list recipes` shows
    assert {"lm", "energy", "valid", "test"} <= recipe.corpus.parts.keys()
    assert sum(recipe.corpus.parts.values()) == pytest.approx(1)
