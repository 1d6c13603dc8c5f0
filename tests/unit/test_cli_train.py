"""`lexergy mine`, `train`, `evaluate`, `report` and `demo`: thin over the Python calls, resumable, JSON on request."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lexergy as lx
from lexergy.cli.demo import RECIPE
from lexergy.cli.main import app
from lexergy.cli.train import _value
from lexergy.core.provenance import provenance
from lexergy.report.document import Prose, Report
from lexergy.report.store import save

SMALL = """# A recipe for a test
title = "Small"
claim = "None."
source = "none"
pinned = true

[corpus]
place = "{corpus}"
parts = {{ lm = 0.3, energy = 0.4, valid = 0.1, test = 0.2 }}

[tokenizer]
vocabulary = 300

[lm]
size = "tiny"
steps = 2
batch = 2
length = 16
warmup = 1

[mine]
per_prefix = 1
prefix = 8
length = 4
space = "fixed"
limit = 48

[energy]
start = "lm"
batch = 8
epochs = 1

[evaluate]
n = 4
windows = 6
show = 1
show_n = 4
"""


def ask(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


def answer(*arguments):
    result = ask(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


MINE = ("--prefix", 8, "--length", 6, "--per-prefix", 2, "--space", "fixed", "--limit", 64, "--quiet")


def test_a_mined_set_is_that_of_the_python_call(tiny, tiny_mined, tmp_path):
    found = answer("mine", tiny.corpus, "--lm", tiny.lm, "--out", tmp_path / "mined", *MINE)
    here, there = lx.read_mined(found["place"]), lx.read_mined(tiny_mined)
    assert (found["windows"], found["per_prefix"], found["seed"]) == (len(there), 2, 0)
    assert here.log_q.tolist() == there.log_q.tolist()
    again = answer("mine", tiny.corpus, "--lm", tiny.lm, "--out", tmp_path / "mined", *MINE)
    assert again == found


def test_mining_a_part_with_shares_of_ones_own(tiny, tmp_path):
    parts = ("--part", "energy", "--parts", "energy=0.1", "--parts", "rest=0.9")
    found = answer("mine", tiny.corpus, "--lm", tiny.lm, "--out", tmp_path / "mined", *MINE, *parts)
    assert 0 < found["windows"] < 64
    other = ask("mine", tiny.corpus, "--lm", tiny.lm, "--out", tmp_path / "x", *MINE, "--parts", "energy")
    assert (other.exit_code, other.stdout) == (2, "")
    assert "NAME=SHARE" in other.stderr


def test_a_set_mined_otherwise_is_not_overwritten(tiny, tmp_path):
    place = tmp_path / "mined"
    answer("mine", tiny.corpus, "--lm", tiny.lm, "--out", place, *MINE)
    result = ask("mine", tiny.corpus, "--lm", tiny.lm, "--out", place, *MINE, "--seed", 5)
    assert result.exit_code == 2
    assert "seed: 0 there, 5 here" in result.stderr


TRAIN = ("--batch", 8, "--epochs", 1, "--quiet")


def test_an_energy_without_a_recipe(tiny_mined, tmp_path):
    out = tmp_path / "energy"
    found = answer("train", "--mined", tiny_mined, "--start", "bag", "--out", out, *TRAIN, "--set", "log_every=1")
    assert found["energy"] == str(out / "energy")
    assert found["ended"] in ("steps", "patience")
    assert len(json.loads((out / "history.json").read_text())["records"]) == found["step"]
    assert len(lx.load_energy(out / "energy").score(["river"])) == 1


def test_a_run_is_gone_on_with_only_when_asked(tiny_mined, tmp_path):
    words = ("train", "--mined", tiny_mined, "--start", "bag", "--out", tmp_path / "energy", *TRAIN)
    first = answer(*words)
    result = ask(*words)
    assert result.exit_code == 2
    assert "esume" in result.stderr
    assert answer(*words, "--resume") == first


def test_a_value_is_read_as_toml():
    assert [_value(text) for text in ("3", "0.5", "true", "[1, 2]", "cosine", '"x"')] == [
        3,
        0.5,
        True,
        [1, 2],
        "cosine",
        "x",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give a RECIPE, or --mined DIR"),
        ([RECIPE, "--mined", "x"], "Give a RECIPE, or --mined DIR"),
        ([RECIPE, "--epochs", "3"], "--epochs goes with --mined"),
        (["--mined", "{mined}"], "Say where the energy goes: --out DIR"),
        (["--mined", "{mined}", "--out", "{out}", "--size", "smal"], "Did you mean 'small'?"),
        (["--mined", "{mined}", "--out", "{out}", "--batch", "9999"], "do not fill a batch of 9999"),
        (["--mined", "{mined}", "--out", "{out}", "--negatives", "3", "--batch", "8"], "negatives lies between 1 and"),
        (["--mined", "{mined}", "--out", "{out}", "--set", "step=3"], "Did you mean 'steps'?"),
        (["--mined", "{mined}", "--out", "{out}", "--set", "steps"], "--set takes NAME=VALUE"),
        (["--mined", "{mined}", "--out", "{out}", "--seed", "1", "--set", "seed=2"], "seed was given twice"),
        (["--mined", "{mined}", "--out", "{out}", "--learning-rate", "-1", "--batch", "8"], "learning_rate is above 0"),
        (["--mined", "{out}", "--out", "{out}"], "is no mined set"),
        (["--mined", "{mined}", "--out", "{out}", "--start", "transformer"], "is not started from its name"),
        (["generation/dem"], "Did you mean 'generation/demo'?"),
        (["nothing.toml"], "There is no recipe file nothing.toml"),
        ([RECIPE, "--set", "lm.step=3"], "Did you mean 'steps'?"),
        ([RECIPE, "--set", "lm.steps=many"], "lm: steps takes int; received 'many'"),
        ([RECIPE, "--set", "nonsense"], "--set takes key=value"),
    ],
    ids=range(18),
)
def test_what_cannot_be_trained_is_said_and_leaves_nothing(tiny_mined, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = ask("train", *(one.format(mined=tiny_mined, out=tmp_path / "out") for one in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """A recipe file and the folder it was trained in."""
    root = tmp_path_factory.mktemp("run")
    recipe = root / "small.toml"
    recipe.write_text(SMALL.format(corpus=tiny.corpus), encoding="utf-8")
    found = answer("train", recipe, "--out", root / "run", "--seed", 3, "--quiet")
    assert found == {"run": str(root / "run")}
    return recipe, root / "run"


def test_a_recipe_is_trained_with_its_seed(trained):
    recipe, run = trained
    assert json.loads((run / "recipe.json").read_text())["seed"] == 3
    refused = ask("train", recipe, "--out", run, "--seed", 3, "--quiet")
    assert (refused.exit_code, "esume" in refused.stderr) == (2, True)
    changed = ask("train", recipe, "--out", run, "--seed", 4, "--quiet", "--resume")
    assert (changed.exit_code, "differs in seed" in changed.stderr) == (2, True)
    assert answer("train", recipe, "--out", run, "--seed", 3, "--quiet", "--resume") == {"run": str(run)}


def test_a_trained_recipe_is_evaluated(trained):
    recipe, run = trained
    words = ("evaluate", recipe, "--out", run, "--seed", 3, "--quiet")
    found = answer(*words)
    assert found["perplexity"]["n"] == 4
    assert found["result"]["seed"] == 3
    assert Path(found["report"]).is_file()
    shown = ask(*words)
    assert shown.exit_code == 0
    assert f"{found['perplexity']['certified']['value']:.3f}" in shown.stdout
    assert "unresolved: " in shown.stdout
    assert shown.stdout.splitlines()[-1] == found["report"]


def test_a_recipe_that_was_not_trained(trained, tmp_path):
    result = ask("evaluate", trained[0], "--out", tmp_path / "nowhere")
    assert result.exit_code == 2
    assert "Run lexergy train" in result.stderr
    assert not (tmp_path / "nowhere").exists()


def test_a_saved_joint_model_on_a_file(tiny):
    words = ("evaluate", tiny.joint, tiny.corpus, "-n", 8, "--prefix", 8, "--windows", 5, "--seed", 2, "--quiet")
    found = answer(*words)
    joint = lx.Joint.from_pretrained(tiny.joint)
    expected = joint.perplexity(tiny.corpus, n=8, prefix=8, windows=5, seed=2, quiet=True)
    assert found == json.loads(json.dumps(expected.to_json()))
    shown = ask(*words).stdout
    assert "joint, certified" in shown
    assert "5 windows" in shown


def test_one_draw_has_no_upper_bound_and_json_stays_strict(tiny):
    found = answer("evaluate", tiny.joint, tiny.corpus, "-n", 1, "--prefix", 8, "--windows", 3, "--quiet")
    assert found["upper"]["value"] == "Infinity"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([RECIPE, "-n", "3"], "--n goes with a JOINT and a FILE"),
        (["{joint}", "{corpus}", "--set", "a=1"], "--set and --out go with a RECIPE"),
        (["{joint}", "nothing.txt"], "There is no file or folder nothing.txt"),
        (["{bag}", "{corpus}"], "is no saved joint model"),
        (["generation/dem"], "Did you mean 'generation/demo'?"),
    ],
    ids=range(5),
)
def test_what_cannot_be_evaluated_is_said(tiny, arguments, message):
    places = {"joint": tiny.joint, "corpus": tiny.corpus, "bag": tiny.bag}
    result = ask("evaluate", *(one.format(**places) for one in arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.parametrize("below", ["", "report"])
def test_a_report_is_made_again_from_its_numbers(tmp_path, below):
    report = Report("A title", "A sentence.", provenance(0), [Prose("Found", "Nothing.")])
    page = save(report, tmp_path / below)
    before = page.read_text()
    page.unlink()
    found = answer("report", tmp_path)
    assert found["html"] == str(page)
    assert page.read_text() == before
    assert ask("report", found["json"]).stdout == f"{page}\n"


def test_a_folder_without_a_report(tmp_path):
    result = ask("report", tmp_path)
    assert result.exit_code == 2
    assert "There is no report.json" in result.stderr


def test_the_demo_trains_and_evaluates_its_recipe(tiny, tmp_path):
    shrunk = {
        "corpus.place": f'"{tiny.corpus}"',
        "tokenizer.vocabulary": 300,
        "lm.steps": 2,
        "lm.batch": 2,
        "lm.length": 16,
        "lm.warmup": 1,
        "mine.prefix": 8,
        "mine.length": 4,
        "energy.batch": 8,
        "energy.epochs": 1,
        "evaluate.n": 4,
        "evaluate.windows": 3,
        "evaluate.show_n": 2,
    }
    changes = [part for key, value in shrunk.items() for part in ("--set", f"{key}={value}")]
    result = ask("demo", "--out", tmp_path / "demo", "--quiet", *changes)
    assert result.exit_code == 0, result.stderr
    page = Path(result.stdout.splitlines()[-1])
    assert page.read_text().startswith("<!doctype html>") or "<html" in page.read_text()
    assert "joint, certified" in result.stdout
