"""`lexergy list` and `lexergy cite` read the folder: a new file appears in both by itself."""

import json

import pytest
from typer.testing import CliRunner

import lexergy
from lexergy import catalog
from lexergy.cli.citations import GENERATION, JMLR, NAMED, PHRASES, SOFTWARE
from lexergy.cli.cite import citations
from lexergy.cli.main import app


def ask(*arguments):
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_the_rooms_and_what_is_in_them():
    rooms = json.loads(ask("list", "--json").stdout)
    assert set(rooms) == {*catalog.ROOMS, "recipes"}
    assert rooms["energies"] == catalog.available("energies")
    shown = ask("list").stdout.splitlines()
    assert next(line for line in shown if line.startswith("energies")).split()[1] == "bag,"


def test_a_room_with_the_first_line_of_each_page():
    found = json.loads(ask("list", "energies", "--json").stdout)
    assert found == {"energies": catalog.available("energies")}
    assert "bag" in ask("list", "energies").stdout
    assert "A bag of tokens: E(x) = Σ" in ask("list", "energies").stdout


def test_recipes_with_the_first_line_of_each():
    found = json.loads(ask("list", "recipes", "--json").stdout)["recipes"]
    assert "generation/demo" in found
    assert all(not about.startswith("#") for about in found.values())


def test_a_new_file_is_listed_and_cited_by_itself(tmp_path, monkeypatch):
    for room in catalog.ROOMS:
        (tmp_path / room).mkdir()
    (tmp_path / "recipes").mkdir()
    page = '"""A new energy.\n\nThe generation\npaper, section 9.\n"""\nraise RuntimeError("listing must not run it")\n'
    (tmp_path / "energies" / "novel.py").write_text(page, encoding="utf-8")
    monkeypatch.setattr(lexergy, "__path__", [str(tmp_path)])
    assert json.loads(ask("list", "energies", "--json").stdout) == {"energies": {"novel": "A new energy."}}
    assert citations("novel") == citations("energies/novel") == [GENERATION, SOFTWARE]


def test_json_has_the_sentence_and_the_entry():
    found = json.loads(ask("cite", "residual", "--json").stdout)
    assert found["method"] == "residual"
    assert [one["key"] for one in found["citations"]] == [GENERATION.key, JMLR.key, "lexergy"]
    assert found["citations"][0]["bibtex"] in ask("cite", "residual").stdout


def test_a_sentence_and_an_entry_say_the_same():
    assert JMLR.text == (
        "Anton Bakhtin, Yuntian Deng, Sam Gross, Myle Ott, Marc'Aurelio Ranzato and Arthur Szlam. Residual "
        "Energy-Based Models for Text. Journal of Machine Learning Research, 22(40), 1–41, 2021."
    )
    assert JMLR.bibtex.startswith(
        "@article{bakhtin2021residual,\n  title = {{Residual Energy-Based Models for Text}},\n"
    )
    assert "  volume = {22},\n" in JMLR.bibtex
    assert JMLR.bibtex.endswith("\n}")


def test_every_entry_is_one_and_its_braces_are_even():
    works = {work for group in (*NAMED.values(), *PHRASES.values()) for work in group} | {SOFTWARE}
    assert len({work.key for work in works}) == len(works)
    for work in works:
        assert work.bibtex.count("{") == work.bibtex.count("}")
        assert str(work.year) in work.text


@pytest.mark.parametrize("room", catalog.ROOMS)
def test_every_component_can_be_cited(room):
    for name in catalog.available(room):
        assert citations(f"{room}/{name}")[-1] == SOFTWARE


def test_a_recipe_is_cited_by_its_paper():
    assert GENERATION in citations("generation/demo")


def test_a_name_in_two_rooms_is_both():
    assert set(citations("lm")) == set(citations("energies/lm")) | set(citations("objectives/lm"))
