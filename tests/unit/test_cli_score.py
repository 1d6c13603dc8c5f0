"""`lexergy score`: the numbers of the Python call, in the order of the file, a block at a time."""

import json

import pytest
from typer.testing import CliRunner

import lexergy as lx
from lexergy.cli import score as verb
from lexergy.cli.main import app
from lexergy.text.corpus import Line

TEXTS = ["The river is a stone.", "Winter music", "", "a house in the garden, a letter"]


def ask(*arguments, stdin=None):
    return CliRunner().invoke(app, ["score", *map(str, arguments)], input=stdin, catch_exceptions=False)


def rows(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    return path


def test_numbers_are_those_of_the_python_call(tiny, file):
    found = rows(ask("--energy", tiny.bag, file, "--json"))
    assert [row["text"] for row in found] == TEXTS
    assert [row["energy"] for row in found] == lx.load_energy(tiny.bag).score(TEXTS)


def test_text_standard_input_and_file_agree(tiny, file):
    from_file = ask("--energy", tiny.bag, file, "--json").stdout
    assert ask("--energy", tiny.bag, "-", "--json", stdin=file.read_text()).stdout == from_file
    options = [part for text in TEXTS for part in ("--text", text)]
    assert ask("--energy", tiny.bag, *options, "--json").stdout == from_file


def test_blocks_change_nothing(tiny, file, monkeypatch):
    whole = ask("--energy", tiny.bag, file, "--json").stdout
    monkeypatch.setattr(verb, "BLOCK", 1)
    assert ask("--energy", tiny.bag, file, "--json").stdout == whole
    monkeypatch.setattr(verb, "BLOCK", 4096)
    monkeypatch.setattr(verb, "CHARACTERS", 1)
    assert ask("--energy", tiny.bag, file, "--json").stdout == whole


def test_no_more_than_a_block_is_held(monkeypatch):
    monkeypatch.setattr(verb, "BLOCK", 3)
    read = []

    def lines():
        for i in range(10):
            read.append(i)
            yield Line(str(i), "")

    blocks = verb._blocks(lines())
    assert (len(next(blocks)), len(read)) == (3, 3)
    assert [len(block) for block in blocks] == [3, 3, 1]


def test_a_person_reads_energy_and_text(tiny, file):
    lines = ask("--energy", tiny.bag, file).stdout.splitlines()
    energies = lx.load_energy(tiny.bag).score(TEXTS)
    assert lines == [f"{value:.4f}\t{text}" for value, text in zip(energies, TEXTS, strict=True)]


def test_context_is_the_rows_own_or_the_option(tiny, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": " stone", "context": "river"}\n{"text": " stone"}\n', encoding="utf-8")
    found = rows(ask("--energy", tiny.network, path, "--context", "light", "--json"))
    energy = lx.load_energy(tiny.network)
    assert [row["energy"] for row in found] == energy.score([" stone", " stone"], ["river", "light"])
    assert [row["context"] for row in found] == ["river", "light"]


def test_tokens(tiny):
    text = "river stone"
    (row,) = rows(ask("--energy", tiny.bag, "--text", text, "--tokens", "--json"))
    assert row["tokens"] == [list(pair) for pair in lx.load_energy(tiny.bag).score_tokens(text)]
    lines = ask("--energy", tiny.bag, "--text", text, "--tokens").stdout.splitlines()
    assert len(lines) == 1 + len(row["tokens"])
    assert lines[1].split("\t") == ["", f"{row['tokens'][0][1]:.4f}", row["tokens"][0][0]]


def test_a_language_model_is_an_energy_when_asked_for(tiny):
    (row,) = rows(ask("--energy", tiny.lm, "--kind", "lm", "--text", "river stone", "--json"))
    assert row["energy"] == pytest.approx(-lx.load_proposal(tiny.lm).log_prob(["river stone"])[0], abs=1e-4)


def test_long_text_is_put_together_as_asked(tiny):
    text = "river stone light house " * 30
    found = {
        way: rows(ask("--energy", tiny.network, "--text", text, "--windows", way, "--json"))[0]["energy"]
        for way in ("sum", "mean")
    }
    assert found["sum"] == pytest.approx(lx.load_energy(tiny.network).score([text], windows="sum")[0])
    assert found["sum"] != pytest.approx(found["mean"])


def test_a_text_of_several_lines_stays_on_its_own(tiny, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "two\\nlines\\tand a tab"}\n', encoding="utf-8")
    (line,) = ask("--energy", tiny.bag, path).stdout.splitlines()
    assert line.split("\t")[1] == "two\\nlines\\tand a tab"
