"""Recipes run: train the parts, evaluate the whole, leave a folder that says what was done. `lx.train`, `lx.evaluate`.

A run folder holds recipe.json, lm/, mined/, energy/, joint/ and, after evaluation, results/ and the report. Each part is skipped
where it is done and resumed where it is not, so a run that was stopped is started again with the same command.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.core.provenance import provenance
from lexergy.engine.load import evaluating
from lexergy.evaluation.held_out import held_out
from lexergy.evaluation.perplexity import Perplexity, perplexity
from lexergy.evaluation.summary import summary
from lexergy.joint import Joint
from lexergy.loading import load_proposal
from lexergy.proposals.causal import Causal
from lexergy.recipe import Recipe, read_recipe
from lexergy.report.document import Cell, Report
from lexergy.report.results import Result, Row, write_result
from lexergy.report.store import save
from lexergy.text.corpus import read_corpus
from lexergy.text.document import Document
from lexergy.text.duplicates import NearDuplicates
from lexergy.text.mined import Mined
from lexergy.text.split import part_of
from lexergy.text.tokenisers import decode, load_tokenizer, train_tokenizer
from lexergy.training.energy import train_energy
from lexergy.training.lm import new_lm, train_lm
from lexergy.training.mine import mine
from lexergy.training.settings import Settings

Set = Mapping[str, Any] | Iterable[str] | None


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation leaves: the numbers, the results file, the page."""

    perplexity: Perplexity
    result: Result
    results_file: Path
    report: Path


def train(
    recipe: str | Path,
    set: Set = None,
    out: str | Path | None = None,
    *,
    resume: bool = True,
    quiet: bool = False,
    device: str | None = None,
    dtype: str | None = None,
) -> Path:
    """Train all that a recipe names; gives the run's folder (default: runs/<recipe's name>)."""
    plan = read_recipe(recipe, set)
    run = _Run(plan, Path(out) if out is not None else Path("runs") / plan.name, quiet, device, dtype)
    with _pinned(plan.pinned):
        run.start(resume)
        run.train()
    return run.folder


def evaluate(
    recipe: str | Path,
    set: Set = None,
    out: str | Path | None = None,
    *,
    quiet: bool = False,
    device: str | None = None,
    dtype: str | None = None,
) -> Evaluated:
    """Evaluate a trained recipe on its test part; writes results/<name>.json and the report into the run's folder."""
    plan = read_recipe(recipe, set)
    run = _Run(plan, Path(out) if out is not None else Path("runs") / plan.name, quiet, device, dtype)
    if not (run.folder / "joint" / "joint.json").is_file():
        raise LexergyError(f"{run.folder} holds no trained run of {plan.name}. Run lexergy train {recipe} first.")
    with _pinned(plan.pinned):
        run.start(resume=True)
        return run.evaluate()


@contextmanager
def _pinned(pinned: bool) -> Iterator[None]:
    """The machine pinned for the length of a block: float32, one thread, a fixed budget."""
    if not pinned:
        yield
        return
    threads, probe = torch.get_num_threads(), os.environ.get("LEXERGY_PROBE")
    os.environ["LEXERGY_PROBE"] = "off"
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if probe is None:
            del os.environ["LEXERGY_PROBE"]
        else:
            os.environ["LEXERGY_PROBE"] = probe


class _Run:
    """A recipe and its folder."""

    def __init__(self, plan: Recipe, folder: Path, quiet: bool, device: str | None, dtype: str | None) -> None:
        self.plan, self.folder, self.quiet = plan, folder, quiet
        self.options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.seconds: dict[str, float] = {}
        self._parts: dict[str, list[Document]] = {}

    def start(self, resume: bool) -> None:
        """Make the folder, or check that it holds this very recipe."""
        file, content = self.folder / "recipe.json", self.plan.to_json()
        if file.is_file():
            before = files.read_json(file)
            if before != content:
                changed = sorted(key for key in content if before.get(key) != content[key])
                raise LexergyError(
                    f"{self.folder} holds a run of another recipe (it differs in {', '.join(changed)}). Choose another --out, or "
                    "remove the folder."
                )
            if not resume:
                raise LexergyError(f"{self.folder} exists. Resume it, remove it, or choose another --out.")
        else:
            files.write_json(file, content)
        costs = self.folder / "seconds.json"
        self.seconds = files.read_json(costs) if costs.is_file() else {}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add up what a part took, over resumptions."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + round(time.monotonic() - begun, 2)
            files.write_json(self.folder / "seconds.json", self.seconds)

    def documents(self, part: str) -> list[Document]:
        """The documents of a part, near-duplicates out; the corpus is read once."""
        corpus = self.plan.corpus
        if not self._parts:
            for document in NearDuplicates().without(read_corpus(corpus.place, limit_words=corpus.limit_words)):
                self._parts.setdefault(part_of(document.group, corpus.parts), []).append(document)
        return self._parts.get(part, [])

    def train(self) -> None:
        """Language model, mined set, energy, joint model, in that order."""
        lm = self.language_model()
        mined = self.mined(lm)
        if (self.folder / "joint" / "joint.json").is_file():
            return
        e = self.plan.energy
        start = lm.lm.name if e.start == "lm" else e.start
        with self.timed("energy"):
            energy = train_energy(
                mined,
                start=start,
                size=e.size,
                seed=self.plan.seed,
                causal=e.causal if start != "bag" else None,
                pooling=e.pooling,
                dropout=e.dropout,
                negatives=e.negatives,
                form=e.form,
                epochs=e.epochs,
                batch=e.batch,
                learning_rate=e.learning_rate,
                patience=e.patience,
                fit_scale=e.fit_scale,
                out=self.folder / "energy",
                quiet=self.quiet,
                device=self.options["device"] or "auto",
            )
        Joint(lm, energy, space=self.plan.mine.space, length=self.plan.mine.length).save_pretrained(
            self.folder / "joint"
        )

    def language_model(self) -> Causal:
        """The language model: as it comes, or trained here."""
        m = self.plan.lm
        if m.start is not None:
            return load_proposal(m.start, **self.options)
        place = self.folder / "lm" / "model"
        if not place.is_dir():
            with self.timed("language model"):
                self._train_language_model()
        return load_proposal(place, **self.options)

    def _train_language_model(self) -> None:
        m, seed = self.plan.lm, self.plan.seed
        place = self.folder / "tokenizer"
        if not place.is_dir():
            train_tokenizer((d.text for d in self.documents("lm")), self.plan.tokenizer.vocabulary, place)
        tokenizer = load_tokenizer(place)
        model = new_lm(tokenizer, m.size, "left_to_right", seed)
        settings = Settings(
            steps=m.steps,
            learning_rate=m.learning_rate,
            warmup=m.warmup,
            validate_every=m.validate_every,
            patience=m.patience,
            seed=seed,
            quiet=self.quiet,
            device=self.options["device"] or "auto",
        )
        held = self.documents("valid")
        train_lm(model, tokenizer, self.documents("lm"), held, settings, m.length, m.batch, self.folder / "lm")

    def mined(self, lm: Causal) -> Mined:
        """The mined set of the energy's part."""
        m, corpus = self.plan.mine, self.plan.corpus
        with self.timed("mining"):
            return mine(
                lm,
                corpus.place,
                self.folder / "mined",
                m.per_prefix,
                m.prefix,
                m.length,
                space=m.space,
                seed=self.plan.seed,
                limit=m.limit,
                part="energy",
                parts=corpus.parts,
                limit_words=corpus.limit_words,
                quiet=self.quiet,
            )

    def evaluate(self) -> Evaluated:
        """Test windows judged, results and report written."""
        e, m, seed = self.plan.evaluate, self.plan.mine, self.plan.seed
        joint = Joint.from_pretrained(self.folder / "joint", **self.options)
        lm = joint.proposal
        eos = lm.lm.eos[0] if lm.lm.eos else None
        with self.timed("evaluation"), evaluating(joint.energy):
            chosen = held_out(
                self.documents("test"), lm.tokenizer, m.prefix, m.length, m.space, e.windows, seed, eos=eos
            )
            law = lm.law_of(m.length, space=m.space, seed=seed)
            found = perplexity(joint.judge(chosen, e.n, law, self.quiet), str(law), seed)
            shown = []
            for window in chosen[: e.show]:
                prompt = decode(lm.tokenizer, window.context)
                truth = decode(lm.tokenizer, window.continuation, window.context)
                shown.append((prompt, truth, joint.sample(prompt, n=e.show_n, seed=seed)))
        result = self._result(found)
        file = self.folder / "results" / f"{self.plan.name}.json"
        result = write_result(file, result)
        page = Report(
            self.plan.title,
            _sentence(found),
            provenance(seed),
            summary(found, shown, self._compute(joint)),
        )
        return Evaluated(found, result, file, save(page, self.folder / "report"))

    def _compute(self, joint: Joint) -> list[tuple[str, Cell, Cell, Cell]]:
        def size(module: torch.nn.Module) -> int:
            return sum(parameter.numel() for parameter in module.parameters())

        m, model = self.plan.lm, joint.proposal.lm.model
        tokens = None if m.start is not None else m.steps * m.batch * m.length
        mined = Mined(self.folder / "mined")
        parts: list[tuple[str, Cell, Cell]] = [
            ("language model", size(model), tokens),
            ("mining", None, len(mined.negatives)),
            ("energy", size(joint.energy), len(mined.real) + len(mined.negatives)),
            ("evaluation", None, self.plan.evaluate.n * self.plan.evaluate.windows),
        ]
        return [(name, count, amount, round(self.seconds.get(name, 0.0), 1)) for name, count, amount in parts]

    def _result(self, found: Perplexity) -> Result:
        rows = [
            Row("language model", "perplexity", found.base.value, found.base.low, found.base.high, found.groups),
            Row("joint", "perplexity_lower", found.lower.value, found.lower.low, found.lower.high, found.groups),
            Row("joint", "perplexity_upper", found.upper.value, found.upper.low, found.upper.high, found.groups),
            Row(
                "joint",
                "perplexity_certified",
                found.certified.value,
                found.certified.low,
                found.certified.high,
                found.groups,
            ),
            Row("joint", "certified_gain_nats", found.gain.value, found.gain.low, found.gain.high, found.groups),
            Row("joint", "detection_accuracy", found.accuracy, None, None, found.windows),
            Row("joint", "median_ess", found.resolution.median_ess, None, None, found.n),
        ]
        rows = [
            row for row in rows if row.value is not None and row.value == row.value and abs(row.value) != float("inf")
        ]
        return Result(
            name=self.plan.name,
            claim=self.plan.claim,
            source=self.plan.source,
            command=f"lexergy evaluate {self.plan.name}",
            seed=self.plan.seed,
            data={
                "name": self.plan.corpus.place,
                "test_windows": found.windows,
                "test_groups": found.groups,
                "test_tokens": found.tokens,
            },
            compute={"seconds": round(sum(self.seconds.values()), 1), "size": self.plan.size, **self.seconds},
            rows=rows,
            held=found.saved.low > 0,
            note=_sentence(found),
        )


def _sentence(found: Perplexity) -> str:
    """What was found, in two sentences."""
    change = found.saved
    verdict = "below" if change.low > 0 else "not shown to be below"
    state = "resolved" if found.resolved else "unresolved (" + "; ".join(found.resolution.reasons) + ")"
    return (
        f"The certified perplexity is {found.certified.value:.2f}, {verdict} the language model's {found.base.value:.2f} "
        f"(saved {change.value:.2f}, 95 % interval {change.low:.2f} to {change.high:.2f}, n = {found.n}). The bounds on log Z are {state}."
    )
