"""Bad input through the command line: one line that says what to do, exit code 2, nothing half-written left behind."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from lexergy.cli.main import app
from lexergy.core import files
from lexergy.core.random import seeded
from lexergy.energies.bag import Bag
from lexergy.energies.transformer import Transformer
from lexergy.engine.load import Loaded
from lexergy.engine.probe import plan
from lexergy.nets.transformer import TransformerModel, preset
from lexergy.text.tokenisers import train_tokenizer


def ask(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(one) for one in arguments], input=stdin, catch_exceptions=False)


def refused(result, *messages):
    """One line on standard error that holds all of these, nothing on standard output, exit code 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    for message in messages:
        assert message in result.stderr
    return result.stderr


def left(folder: Path) -> list[str]:
    """What lies below a folder."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def copied(place: str, to: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(place, to))


BYTES = {
    "empty": (b"", "is empty"),
    "not-utf8": (b"fine\nna\xefve\n", "is not UTF-8 in line 2: byte 7 of the file is 0xef"),
    "nul": (b"fine\nbi\x00nary\n", "NUL byte in line 2 (byte 7 of the file)"),
}


@pytest.mark.parametrize("case", BYTES)
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_bytes_that_are_no_texts(tiny, tmp_path, case, way):
    content, message = BYTES[case]
    path = tmp_path / "texts.txt"
    path.write_bytes(content)
    for verb in (["score", "--energy", tiny.bag], ["sample", "--joint", tiny.joint]):
        if way == "file":
            refused(ask(*verb, path, "--json"), message, "texts.txt")
        else:
            refused(ask(*verb, "-", "--json", stdin=content), message, "tandard input")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"txt": "a"}\n', "line 1 has no column 'text'; its columns: 'txt'. Did you mean 'txt'?"),
        ('{"text": "a"}\n{"text": 5}\n', "line 2: column 'text' must be a string; received int"),
        ('{"text": "a"}\nnonsense\n', "line 2 is not JSON"),
        ('["a"]\n', "line 1 is JSON but not an object"),
        ('{"text": "a", "context": 5}\n', "column 'context' must be a string"),
        ('{"text": "\\u0000"}\n', "holds a NUL character"),
        ('{"text": "\\ud83d"}\n', "half a surrogate pair"),
    ],
    ids=["column", "type", "no-json", "no-object", "context", "nul", "surrogate"],
)
def test_rows_that_are_no_texts(tiny, tmp_path, content, message):
    path = tmp_path / "texts.jsonl"
    path.write_text(content, encoding="utf-8")
    refused(ask("score", "--energy", tiny.bag, path), message)


def test_a_broken_line_comes_after_the_blocks_before_it(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("lexergy.cli.score.BLOCK", 1)
    path = tmp_path / "texts.txt"
    path.write_bytes(b"fine\n\xff\n")
    result = ask("score", "--energy", tiny.bag, path, "--json")
    assert result.exit_code == 2
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["fine"]
    assert "line 2" in result.stderr


@pytest.fixture(scope="module")
def long_words(tmp_path_factory):
    """Two energies whose tokens are long, so that ten megabytes are not millions of them: one takes any length."""
    root, word = tmp_path_factory.mktemp("long"), "ab" * 32
    tokenizer = train_tokenizer([f"{word} {word}"], 300)
    with seeded(0, "long words"):
        trunk = TransformerModel(preset("tiny", vocab_size=300, hidden_size=16, num_attention_heads=2))
    Bag(tokenizer).save_pretrained(root / "bag")
    Transformer(Loaded(trunk, tokenizer, plan(), "long words", "object")).save_pretrained(root / "network")
    line = root / "texts.txt"
    line.write_text(f"{word} " * 160_000 + "\n", encoding="utf-8")
    assert line.stat().st_size > 10_000_000
    return root, line


@pytest.mark.slow
def test_a_line_of_ten_megabytes_is_scored(long_words):
    root, line = long_words
    result = ask("score", "--energy", root / "bag", line)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1


@pytest.mark.slow
def test_a_line_of_ten_megabytes_that_does_not_fit_is_refused_with_a_way_out(long_words):
    root, line = long_words
    refused(ask("score", "--energy", root / "network", line), "Nothing is cut in silence", 'windows="sum" or "mean"')


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.txt", "There is no file"),
        ("folder", "is a folder; give a .txt"),
        ("table.csv", "is a .csv file; texts are read from .txt and .jsonl"),
    ],
    ids=["absent", "folder", "table"],
)
def test_what_is_no_file_of_texts(tiny, tmp_path, name, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "table.csv").write_text("text\na\n")
    refused(ask("score", "--energy", tiny.bag, tmp_path / name), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], 'Give texts as a FILE (- for standard input) or as --text "…"'),
        (["x.txt", "--text", "a"], 'Give texts as a FILE (- for standard input) or as --text "…"'),
        (["--text", "a\x00b"], "--text holds a NUL character"),
        (["--text", "a", "--windows", "max"], "Invalid value for '--windows'"),
        (["--text", "a", "--device", "abacus"], "Unknown device 'abacus'"),
        (["--text", "a", "--dtype", "float23"], "Unknown dtype 'float23'. Did you mean 'float32'?"),
        (["--text", "a", "--seed", "first"], "Invalid value for '--seed'"),
    ],
    ids=["none", "both", "nul", "windows", "device", "dtype", "seed"],
)
def test_options_of_score(tiny, arguments, message):
    refused(ask("score", "--energy", tiny.network, *arguments), message)


def test_an_energy_that_has_none_a_token(tiny):
    refused(ask("score", "--energy", tiny.network, "--text", "a", "--tokens"), "one number a text, none a token")


def test_places_that_hold_no_energy(tiny, tmp_path):
    refused(ask("score", "--energy", tmp_path, "--text", "a"), "is no saved energy")
    refused(ask("score", "--energy", "bag", "--text", "a"), "'bag' is a kind of energy")
    refused(ask("score", "--energy", tiny.lm, "--kind", "l", "--text", "a"), "Unknown kind of energy 'l'")
    refused(ask("score", "--energy", tmp_path / "none", "--kind", "lm", "--text", "a"), "There is no model at")


def test_a_saved_energy_of_an_unknown_kind(tiny, tmp_path):
    place = copied(tiny.bag, tmp_path / "bag")
    content = json.loads((place / "energy.json").read_text())
    (place / "energy.json").write_text(json.dumps({**content, "kind": "bug"}))
    refused(ask("score", "--energy", place, "--text", "a"), "Unknown name in energies 'bug'. Did you mean 'bag'?")
    (place / "energy.json").write_text("{")
    refused(ask("score", "--energy", place, "--text", "a"), "is not valid JSON")


@pytest.mark.parametrize("part", ["bag/bag.safetensors", "network/model.safetensors", "network/head.safetensors"])
def test_a_checkpoint_that_was_cut_off(tiny, tmp_path, part):
    name, file = part.split("/")
    place = copied(getattr(tiny, name), tmp_path / name)
    whole = (place / file).read_bytes()
    (place / file).write_bytes(whole[: len(whole) // 2])
    refused(ask("score", "--energy", place, "--text", "a"), str(place))


@pytest.mark.parametrize("change", ["longer", "renamed", "absent"])
def test_a_checkpoint_of_another_shape(tiny, tmp_path, change):
    place = copied(tiny.bag, tmp_path / "bag")
    tensors = load_file(place / "bag.safetensors")
    if change == "longer":
        tensors["weight"] = torch.cat([tensors["weight"], torch.zeros(3)])
        said = "tensor 'weight' has shape"
    else:
        weight = tensors.pop("weight")
        said = "lacks tensor 'weight'"
        if change == "renamed":
            tensors["a_weight"] = weight
            said = "has an unknown tensor 'a_weight'"
    save_file(tensors, place / "bag.safetensors")
    refused(ask("score", "--energy", place, "--text", "a"), said, "bag.safetensors")


def test_a_network_of_another_shape(tiny, tmp_path):
    place = copied(tiny.network, tmp_path / "network")
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "hidden_size": 32}))
    refused(ask("score", "--energy", place, "--text", "a"), "did not load as a network")
    lm = copied(tiny.lm, tmp_path / "lm")
    (lm / "config.json").write_text(json.dumps({**json.loads((lm / "config.json").read_text()), "vocab_size": 400}))
    refused(ask("sample", "--lm", lm, "--prompt", "a"), "did not load as a language model")


def test_energies_that_are_not_numbers(tiny, tmp_path):
    place = copied(tiny.bag, tmp_path / "bag")
    tensors = load_file(place / "bag.safetensors")
    save_file({**tensors, "bias": torch.tensor(float("nan"))}, place / "bag.safetensors")
    refused(ask("score", "--energy", place, "--text", "one", "--json"), "The energy of row 0", "'one') is nan")
    refused(ask("sample", "--lm", tiny.lm, "--energy", place, "--prompt", "a", "--seed", 0), "nan")


def mining(tiny, file, out, **changes):
    options = {"--prefix": 8, "--length": 6, "--per-prefix": 1, **changes}
    return ask("mine", file, "--lm", tiny.lm, "--out", out, "--quiet", *(p for pair in options.items() for p in pair))


def test_corpora_that_hold_no_text(tiny, tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    out = tmp_path / "out"
    refused(mining(tiny, corpus, out), "holds no text: it has no .txt or .jsonl file")
    (corpus / "a.txt").write_text("\n \n")
    refused(mining(tiny, corpus, out), "holds no text: it has 1 .txt or .jsonl files, all of them empty")
    refused(mining(tiny, corpus / "a.txt", out), "holds no text: it is empty, or all blank")
    (corpus / "a.txt").write_bytes(b"river\xff")
    refused(mining(tiny, corpus / "a.txt", out), "is not UTF-8 in line 1")
    refused(mining(tiny, tmp_path / "none", out), "There is no file or folder")
    assert left(tmp_path) == ["corpus", "corpus/a.txt"]


def test_a_window_longer_than_the_text_leaves_nothing_that_would_stand_in_the_way(tiny, tmp_path):
    corpus, out = tmp_path / "corpus.txt", tmp_path / "out"
    corpus.write_text("river stone\n", encoding="utf-8")
    refused(mining(tiny, corpus, out, **{"--space": "fixed"}), "No window of 8 + 6 tokens fits", "shorter prefix")
    assert left(tmp_path) == ["corpus.txt"]
    shutil.copy(tiny.corpus, corpus)
    assert mining(tiny, corpus, out, **{"--space": "fixed", "--limit": 4}).exit_code == 0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--per-prefix", 0, "per_prefix must be at least 1"),
        ("--prefix", -1, "prefix"),
        ("--length", 0, "at least 1"),
        ("--length", 500, "do not fit the 48 positions"),
        ("--shard", 0, "shard"),
        ("--limit", 0, "limit"),
        ("--temperature", 0, "temperature"),
        ("--top-k", -1, "top_k"),
        ("--top-p", 1.5, "top_p"),
        ("--part", "tset", "Did you mean 'test'?"),
        ("--space", "open", "Invalid value for '--space'"),
    ],
    ids=lambda value: str(value)[:12],
)
def test_options_of_mine(tiny, tmp_path, option, value, message):
    refused(mining(tiny, tiny.corpus, tmp_path / "out", **{option: value}), message)
    assert left(tmp_path) == []


def test_a_file_stands_where_the_output_should_go(tiny, tmp_path):
    out = tmp_path / "out"
    out.write_text("mine")
    refused(mining(tiny, tiny.corpus, out), str(out))
    assert out.read_text() == "mine"
    (tmp_path / "other" / "windows").mkdir(parents=True)
    (tmp_path / "other" / "windows" / "notes.txt").write_text("mine")
    refused(mining(tiny, tiny.corpus, tmp_path / "other"), "exists and is not a set")
    assert left(tmp_path / "other") == ["windows", "windows/notes.txt"]


def test_a_full_disk_leaves_nothing_half_written(tiny, tmp_path, monkeypatch):
    def full(tensors, path, metadata=None):
        Path(path).write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(files, "save_file", full)
    refused(
        mining(tiny, tiny.corpus, tmp_path / "out"), "Could not write", os.strerror(errno.ENOSPC), "free some space"
    )
    assert [name for name in left(tmp_path) if not (tmp_path / name).is_dir()] == []
    monkeypatch.undo()
    assert mining(tiny, tiny.corpus, tmp_path / "out", **{"--limit": 4}).exit_code == 0


def test_a_recipe_with_an_unknown_key(tmp_path):
    recipe = tmp_path / "mine.toml"
    whole = 'title = "t"\nclaim = "c"\nsource = "s"\n[lm]\nstepz = 3\n'
    recipe.write_text(whole)
    out = ("--out", tmp_path / "out")
    refused(ask("train", recipe, *out), "'stepz'", "Did you mean 'steps'?")
    recipe.write_text(whole.replace("stepz = 3", 'steps = "many"'))
    refused(ask("train", recipe, *out), "steps takes int; received 'many'")
    recipe.write_text("title = 't'\n")
    refused(ask("train", recipe, *out), "lacks claim, source")
    recipe.write_text("title = \n")
    refused(ask("train", recipe, *out), "is not valid TOML")
    recipe.write_bytes(b"title = '\xff'\n")
    refused(ask("train", recipe, *out), "UTF-8")
    assert left(tmp_path) == ["mine.toml"]


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is not valid JSON"), ("[]", "This is not a report"), ('{"title": "a", "sections": []}', "lacks the field")],
    ids=["empty", "list", "part"],
)
def test_a_report_that_is_none(tmp_path, content, message):
    (tmp_path / "report.json").write_text(content)
    refused(ask("report", tmp_path), message)
    assert left(tmp_path) == ["report.json"]
