"""A recipe from text to report: trained, evaluated, gone on with, refused where it is another; every part is there once."""

import dataclasses
import math
import os
import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

import lexergy as lx
from lexergy import jobs
from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.core.provenance import provenance
from lexergy.core.types import Estimate
from lexergy.energies import bag, transformer
from lexergy.evaluation.cost import flops, multiplied, size
from lexergy.evaluation.perplexity import Judged, perplexity
from lexergy.evaluation.summary import _interval, held, rows, sentence, summary
from lexergy.jobs import Evaluated
from lexergy.nets.transformer import TransformerForCausalLM, preset
from lexergy.report.document import Report, Table
from lexergy.report.html import render_html
from lexergy.report.results import read_result
from lexergy.report.store import load
from lexergy.text.corpus import read_corpus

WORDS = ["river", "stone", "light", "house", "garden", "winter", "letter", "music", "paper", "window"]

RECIPE = """# A micro recipe: seconds on one core
title = "A test"
claim = "The energy helps"
source = "no paper"
pinned = true
seed = 2

[corpus]
place = "{place}"
parts = {{ lm = 0.4, energy = 0.4, valid = 0.05, test = 0.15 }}

[tokenizer]
vocabulary = 290

[lm]
size = "tiny"
steps = 8
batch = 4
length = 32
warmup = 2

[mine]
per_prefix = 1
prefix = 8
length = 6

[energy]
start = "lm"
causal = false
dropout = 0.0
epochs = 1
batch = 16

[evaluate]
n = 8
windows = 10
show = 1
show_n = 4
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Evaluated]:
    """A recipe's file, its folder once trained, and what was found."""
    root = tmp_path_factory.mktemp("jobs")
    n = len(WORDS)
    texts = [" ".join(WORDS[(i * 3 + j * (1 + i % 7) + j * j * (i % 3)) % n] for j in range(14)) for i in range(200)]
    (root / "corpus.txt").write_text("\n\n".join(f"{i} {text}" for i, text in enumerate(texts)), encoding="utf-8")
    recipe = root / "micro.toml"
    recipe.write_text(RECIPE.format(place=(root / "corpus.txt").as_posix()), encoding="utf-8")
    folder = lx.train(recipe, out=root / "run", quiet=True)
    return recipe, folder, lx.evaluate(recipe, out=root / "run", quiet=True)


def dates(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


def test_a_recipe_leaves_all_its_parts(run: tuple[Path, Path, Evaluated]) -> None:
    _, folder, found = run
    names = {path.name for path in folder.iterdir()}
    assert {"recipe.json", "corpus", "tokenizer", "lm", "mined", "energy", "joint", "results", "report"} <= names
    assert found.results_file == folder / "results" / "micro.json"
    assert found.report.is_file()
    written = read_result(found.results_file)
    assert written == found.result
    metrics = {(row.system, row.metric): row for row in written.rows}
    certified = metrics["joint", "perplexity_certified"]
    assert certified.value == found.perplexity.certified.value
    assert certified.low is not None
    assert certified.low < certified.value < (certified.high or 0)
    assert {"language model", "joint"} <= {row.system for row in written.rows}
    assert found.perplexity.groups < 20  # so few that nothing is claimed
    assert not written.held
    assert "documents are too few to claim anything: 20 at least" in written.note
    assert written.compute["train_flops"] > 6 * 8 * 4 * 32 * 128 * 128
    assert written.compute["seconds"] >= written.compute["language model"]
    assert written.command == f"lexergy evaluate {run[0]} --out {folder}"
    assert load(found.report.parent).title == "A test"
    assert found.perplexity.windows == 10
    counts = files.read_json(folder / "corpus" / "counts.json")
    assert counts["documents"] + counts["near_duplicates_dropped"] == 200


def test_the_parts_share_no_group(run: tuple[Path, Path, Evaluated]) -> None:
    _, folder, found = run
    mined = lx.read_mined(folder / "mined")
    held = set(found.perplexity.judged.groups)
    trained_on = {document.group for document in read_corpus(folder / "corpus" / "lm.jsonl")}
    assert not held & set(mined.groups)
    assert not held & trained_on
    assert not trained_on & set(mined.groups)


def test_a_second_call_does_nothing_new(run: tuple[Path, Path, Evaluated], monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, folder, found = run
    before = dates(folder)
    assert lx.train(recipe, out=folder, quiet=True) == folder
    assert dates(folder) == before
    files.write_json(folder / "seconds.json", {**files.read_json(folder / "seconds.json"), "evaluation": 1e6})
    again = lx.evaluate(recipe, out=folder, quiet=True)
    assert again.perplexity.to_json() == found.perplexity.to_json()
    assert again.result.compute["evaluation"] < 1e5  # the last evaluation's, not the sum of all


def test_a_run_that_was_stopped_goes_on(
    run: tuple[Path, Path, Evaluated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, straight, _ = run
    kept = []
    for name in ("train_lm", "mine", "train_energy"):
        part = getattr(jobs, name)

        def stopped(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(jobs, name, stopped)
        with pytest.raises(KeyboardInterrupt):
            lx.train(recipe, out=tmp_path / "run", quiet=True)
        monkeypatch.setattr(jobs, name, part)
        kept.append((tmp_path / "run" / "machine.json").stat().st_mtime_ns)  # there before anything is trained
    lx.train(recipe, out=tmp_path / "run", quiet=True)
    assert {*kept, (tmp_path / "run" / "machine.json").stat().st_mtime_ns} == {kept[0]}
    for file in ("lm/model/model.safetensors", "mined/draws/shard-00000.safetensors", "joint/energy/head.safetensors"):
        theirs = straight / file
        if not theirs.is_file():
            continue  # a fitted factor puts the energy one folder deeper
        assert (tmp_path / "run" / file).read_bytes() == theirs.read_bytes()
    drawn = [
        lx.Joint.from_pretrained(place / "joint").sample("stone", n=4, seed=0) for place in (straight, tmp_path / "run")
    ]
    assert drawn[0].texts == drawn[1].texts
    assert torch.equal(drawn[0].energy, drawn[1].energy)


def test_another_recipe_is_refused_and_another_evaluation_is_not(
    run: tuple[Path, Path, Evaluated], tmp_path: Path
) -> None:
    recipe, folder, _ = run
    before = dates(folder)
    with pytest.raises(LexergyError, match=r"differs in lm.steps: 8 there, 9 here; seed: 2 there, 3 here"):
        lx.train(recipe, {"lm.steps": 9, "seed": 3}, folder, quiet=True)
    with pytest.raises(LexergyError, match=r"differs in mine.length"):
        lx.evaluate(recipe, ["mine.length=5"], folder, quiet=True)
    with pytest.raises(LexergyError, match="exists"):
        lx.train(recipe, out=folder, resume=False, quiet=True)
    assert dates(folder) == before
    copy = shutil.copytree(folder, tmp_path / "moved")
    found = lx.evaluate(recipe, {"evaluate.n": 4}, copy, quiet=True)  # and the folder may have moved
    assert found.perplexity.n == 4
    assert found.result.command.endswith(f"--set evaluate.n=4 --out {copy}")


def test_what_was_not_trained_is_not_evaluated(run: tuple[Path, Path, Evaluated], tmp_path: Path) -> None:
    with pytest.raises(LexergyError, match=r"holds no trained run of micro. Run lexergy train"):
        lx.evaluate(run[0], out=tmp_path)
    text = run[0].read_text(encoding="utf-8")
    lacking = tmp_path / "lacking.toml"
    lacking.write_text(text.replace(", valid = 0.05, test = 0.15", ", other = 0.2"), encoding="utf-8")
    with pytest.raises(LexergyError, match="lacks valid, test"):
        lx.train(lacking, out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_checkpoint_and_a_bag_as_they_come(run: tuple[Path, Path, Evaluated], tmp_path: Path) -> None:
    recipe, folder, _ = run
    changes = {"lm.start": str(folder / "lm" / "model"), "energy.start": "bag", "mine.limit": 40, "mine.space": "fixed"}
    lx.train(recipe, changes, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "lm").exists()
    found = lx.evaluate(recipe, changes, tmp_path / "run", quiet=True)
    assert found.result.compute["train_flops"] > 0
    assert lx.Joint.from_pretrained(tmp_path / "run" / "joint").space == "fixed"


def test_a_run_goes_on_as_the_machine_was_when_it_began(
    run: tuple[Path, Path, Evaluated], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, folder, _ = run
    changes = {"lm.start": str(folder / "lm" / "model"), "energy.start": "bag", "mine.limit": 20, "evaluate.n": 2}

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    mine = jobs.mine
    monkeypatch.setattr(jobs, "mine", stopped)
    with pytest.raises(KeyboardInterrupt):
        lx.train(recipe, changes, tmp_path / "run", quiet=True)
    monkeypatch.setattr(jobs, "mine", mine)
    began = files.read_json(tmp_path / "run" / "machine.json")
    files.write_json(tmp_path / "run" / "machine.json", {**began, "dtype": "bfloat16"})
    lx.train(recipe, changes, tmp_path / "run", quiet=True)
    assert files.read_json(tmp_path / "run" / "machine.json") == {**began, "dtype": "bfloat16"}
    assert lx.read_mined(tmp_path / "run" / "mined").law.dtype == "bfloat16"
    assert files.read_json(tmp_path / "run" / "energy" / "history.json")["step"] > 0
    assert "bfloat16" in lx.evaluate(recipe, changes, tmp_path / "run", quiet=True).perplexity.law


def test_the_page_counts_what_was_drawn_not_what_was_asked_for(run: tuple[Path, Path, Evaluated]) -> None:
    recipe, folder, _ = run
    found = lx.evaluate(recipe, {"evaluate.windows": 1000, "evaluate.n": 2}, folder, quiet=True)
    assert 10 < found.perplexity.windows < 1000
    tables = [part for part in load(found.report.parent).sections if isinstance(part, Table)]
    assert ("evaluation", 2 * found.perplexity.windows) in [(row[0], row[2]) for row in tables[-1].rows]


def test_few_documents_hold_no_claim() -> None:
    good = Judged(
        torch.full((25,), -9.0).double(),
        torch.full((25,), -3.0).double(),
        torch.ones(25, 9).double(),
        torch.full((25,), 2),
        [str(i) for i in range(25)],
        "a law",
    )
    assert held(perplexity(good))
    assert "too few" not in sentence(perplexity(good))
    few = perplexity(dataclasses.replace(good, groups=[str(i % 19) for i in range(25)]))
    assert few.saved.low > 0
    assert not held(few)
    assert "Its 19 documents are too few" in sentence(few)


def test_pinned_holds_for_the_block_and_gives_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEXERGY_PROBE")
    torch.set_num_threads(2)
    with jobs._pinned(True):
        assert (os.environ["LEXERGY_PROBE"], torch.get_num_threads()) == ("off", 1)
    assert ("LEXERGY_PROBE" in os.environ, torch.get_num_threads()) == (False, 2)
    torch.set_num_threads(1)


# What a page and a results file make of numbers at their edges


def judged(n: int, groups: list[str], forbidden: bool = False) -> Judged:
    energy = torch.linspace(-1, 1, 3 * n).view(3, n).double()
    if forbidden:
        energy[0, 1:] = math.inf
    return Judged(
        torch.tensor([-3.0, -5.0, -4.0]).double(),
        torch.tensor([-1.0, 0.5, 0.0]).double(),
        energy,
        torch.tensor([2, 3, 2]),
        groups,
        "a law",
    )


@pytest.mark.parametrize(
    "given",
    [judged(1, ["a", "b", "c"]), judged(4, ["a"] * 3), judged(4, ["a", "b", "c"], True), judged(40, ["a", "b", "c"])],
    ids=["one draw", "one document", "nothing bounds a window", "plain"],
)
def test_a_page_is_made_whatever_was_found(given: Judged) -> None:
    found = perplexity(given)
    page = render_html(Report("T", sentence(found), provenance(0), summary(found, [], [("part", 1, None, 0.5)])))
    assert "Perplexity on held-out text" in page
    for row in rows(found):
        assert row.problem() is None
    assert sentence(found).startswith("The certified perplexity is ")


def test_an_interval_holds_its_value() -> None:
    assert _interval(Estimate(1.0, 1.5, 2.0, 3)) == (1.0, 2.0)
    assert _interval(Estimate(1.0, -math.inf, math.inf, 1)) == (None, None)


def test_weights_are_counted_where_they_are_multiplied() -> None:
    tied = TransformerForCausalLM(preset("tiny", vocab_size=50, hidden_size=16, num_attention_heads=2))
    plain = TransformerForCausalLM(
        preset("tiny", vocab_size=50, hidden_size=16, num_attention_heads=2, tie_word_embeddings=False)
    )
    assert size(plain) - size(tied) == 50 * 16
    assert multiplied(tied, tied.lm_head) == multiplied(plain, plain.lm_head) == size(tied)
    assert multiplied(transformer.tiny()) == size(transformer.tiny()) - 6 * 16
    assert multiplied(bag.tiny()) == size(bag.tiny())
    assert flops(10, 5, 3) == (60 + 10) * 3
    assert multiplied(nn.Linear(2, 3, bias=False)) == 6
