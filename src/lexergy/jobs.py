"""Recipes run: train the parts, evaluate the whole, leave a folder that says what was done. `lx.train`, `lx.evaluate`.

A run folder holds recipe.json, corpus/, lm/, mined/, energy/, joint/ and, after evaluation, results/ and the report. Each
part is skipped where it is done and resumed where it is not, so a run that was stopped is started again with the same
command. The corpus is read, freed of near-duplicates and parted once; its parts are then read from the run's folder.
"""

import dataclasses
import os
import shlex
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
from lexergy.energies.scaled import Scaled
from lexergy.engine.probe import Plan, Shape, plan
from lexergy.evaluation.cost import flops, multiplied, size
from lexergy.evaluation.perplexity import Perplexity, perplexity
from lexergy.evaluation.summary import held, rows, sentence, summary
from lexergy.joint import Joint
from lexergy.loading import load_proposal
from lexergy.nets.transformer import preset
from lexergy.proposals.causal import Causal
from lexergy.recipe import Recipe, read_recipe
from lexergy.report.document import Cell, Report
from lexergy.report.results import Result, Row, write_result
from lexergy.report.store import save
from lexergy.text.corpus import read_corpus
from lexergy.text.document import Document
from lexergy.text.mined import Mined
from lexergy.text.parted import divide, part_file
from lexergy.text.tokenisers import decode, load_tokenizer, train_tokenizer
from lexergy.training.energy import train_energy
from lexergy.training.lm import new_lm, train_lm
from lexergy.training.mine import mine
from lexergy.training.settings import Settings
from lexergy.training.start import is_bag

Set = Mapping[str, Any] | Iterable[str] | None

NEEDED = ("lm", "energy", "valid", "test")
"""The parts of a corpus that a recipe reads."""

_MAY_DIFFER = ("title", "claim", "source", "evaluate")
"""What of a recipe decides nothing that is trained."""


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
    read = read_recipe(recipe, set)
    run = _Run(read, _folder(read, out), quiet, device, dtype)
    with _pinned(read.pinned):
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
    changes = dict(set) if isinstance(set, Mapping) else list(set or [])
    read = read_recipe(recipe, changes)
    run = _Run(read, _folder(read, out), quiet, device, dtype)
    if not run.trained:
        raise LexergyError(f"{run.folder} holds no trained run of {read.name}. Run lexergy train {recipe} first.")
    said = [f"{key}={value}" for key, value in changes.items()] if isinstance(changes, dict) else changes
    given = [part for change in said for part in ("--set", change)] + ([] if out is None else ["--out", str(out)])
    with _pinned(read.pinned):
        run.start(resume=True)
        return run.evaluate(shlex.join(["lexergy", "evaluate", str(recipe), *given]))


def _folder(recipe: Recipe, out: str | Path | None) -> Path:
    return Path("runs") / recipe.name if out is None else Path(out)


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

    def __init__(self, recipe: Recipe, folder: Path, quiet: bool, device: str | None, dtype: str | None) -> None:
        self.recipe, self.folder, self.quiet = recipe, folder, quiet
        self.options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.training: dict[str, Any] = {"device": device or "auto", "dtype": dtype or "auto", "quiet": quiet}
        self.seconds: dict[str, float] = {}

    @property
    def trained(self) -> bool:
        """Whether all parts are there."""
        return (self.folder / "joint" / "joint.json").is_file()

    def start(self, resume: bool) -> None:
        """Make the folder, or check that it holds this very recipe."""
        file, content = self.folder / "recipe.json", self.recipe.to_json()
        if file.is_file():
            before, now = _flat(files.read_json(file)), _flat(content)
            changed = [
                f"{key}: {before.get(key)!r} there, {now.get(key)!r} here"
                for key in sorted(before.keys() | now.keys())
                if before.get(key) != now.get(key) and key.split(".")[0] not in _MAY_DIFFER
            ]
            if changed:
                raise LexergyError(
                    f"{self.folder} holds a run of another recipe (it differs in {'; '.join(changed)}). Choose another "
                    "--out, or remove the folder."
                )
            if not resume:
                raise LexergyError(f"{self.folder} exists. Resume it, remove it, or choose another --out.")
        else:
            missing = [part for part in NEEDED if part not in self.recipe.corpus.parts]
            if missing:
                raise LexergyError(f"The recipe's corpus.parts lacks {', '.join(missing)}: all of {NEEDED} are read.")
            files.write_json(file, content)
        costs = self.folder / "seconds.json"
        self.seconds = files.read_json(costs) if costs.is_file() else {}
        self.decide()

    def decide(self, found: Plan | None = None) -> None:
        """Go on with the device and the dtype that this run began with, whatever a busier machine would measure now.

        `found`: what is to be written down where the run has only begun; it is never written again.
        """
        file = self.folder / "machine.json"
        if found is not None and not file.is_file():
            files.write_json(file, found.to_json())
        if file.is_file():
            first = Plan.from_json(files.read_json(file))
            for name, value in {"device": first.device, "dtype": first.dtype}.items():
                if self.options[name] in (None, "auto"):
                    self.options[name] = self.training[name] = value

    @contextmanager
    def timed(self, part: str, again: bool = False) -> Iterator[None]:
        """Write down what a part took, over all resumptions; `again`: it is done anew each time, and the last one counts."""
        begun = time.monotonic()
        try:
            yield
        finally:
            before = 0.0 if again else self.seconds.get(part, 0.0)
            self.seconds[part] = before + round(time.monotonic() - begun, 2)
            files.write_json(self.folder / "seconds.json", self.seconds)

    def part(self, name: str) -> Path:
        """The documents of a part, near-duplicates out, as a file: the corpus is read once."""
        place, corpus = self.folder / "corpus", self.recipe.corpus
        if not place.is_dir():
            with self.timed("corpus"):
                divide(corpus.place, corpus.parts, place, corpus.limit_words)
        return part_file(place, name)

    def documents(self, name: str) -> Iterator[Document]:
        """The same as a stream."""
        return read_corpus(self.part(name))

    def train(self) -> None:
        """Language model, mined set, energy, joint model, in that order."""
        if self.trained:
            return
        lm = self.language_model()
        with self.timed("mining"):
            mined = self.mined(lm)
        e = self.recipe.energy
        shaping = {} if is_bag(e.start) else {"causal": e.causal, "dropout": e.dropout, "pooling": e.pooling}
        with self.timed("energy"):
            energy = train_energy(
                mined,
                start=lm.lm.name if e.start == "lm" else e.start,
                size=e.size,
                seed=self.recipe.seed,
                negatives=e.negatives,
                form=e.form,
                epochs=e.epochs,
                batch=e.batch,
                learning_rate=e.learning_rate,
                patience=e.patience,
                fit_scale=e.fit_scale,
                out=self.folder / "energy",
                **shaping,
                **self.training,
            )
        m = self.recipe.mine
        Joint(lm, energy, space=m.space, length=m.length).save_pretrained(self.folder / "joint")

    def language_model(self) -> Causal:
        """The language model: as it comes, or trained here."""
        m, place = self.recipe.lm, self.folder / "lm" / "model"
        if m.start is not None:
            loaded = load_proposal(m.start, **self.options)
            self.decide(loaded.lm.plan)
            return loaded
        if not (self.folder / "machine.json").is_file():
            shape = Shape.of(preset(m.size, vocab_size=self.recipe.tokenizer.vocabulary))
            self.decide(plan(shape, **self.options))
        if not place.is_dir():
            self.part("lm")
            with self.timed("language model"):
                self._train_language_model()
        return load_proposal(place, **self.options)

    def _train_language_model(self) -> None:
        m, seed = self.recipe.lm, self.recipe.seed
        place = self.folder / "tokenizer"
        if not place.is_dir():
            train_tokenizer((d.text for d in self.documents("lm")), self.recipe.tokenizer.vocabulary, place)
        tokenizer = load_tokenizer(place)
        settings = Settings(
            steps=m.steps,
            learning_rate=m.learning_rate,
            warmup=m.warmup,
            validate_every=m.validate_every,
            patience=m.patience,
            seed=seed,
            **self.training,
        )
        model = new_lm(tokenizer, m.size, "left_to_right", seed)
        text, held = self.documents("lm"), self.documents("valid")
        train_lm(model, tokenizer, text, held, settings, m.length, m.batch, self.folder / "lm")

    def mined(self, lm: Causal) -> Mined:
        """The mined set of the energy's part."""
        m, seed = self.recipe.mine, self.recipe.seed
        place, corpus = self.folder / "mined", self.part("energy")
        options: dict[str, Any] = {"space": m.space, "limit": m.limit, "quiet": self.quiet}
        return mine(lm, corpus, place, m.per_prefix, m.prefix, m.length, seed=seed, **options)

    def evaluate(self, command: str) -> Evaluated:
        """Test windows judged, results and report written."""
        e, m, seed = self.recipe.evaluate, self.recipe.mine, self.recipe.seed
        joint = Joint.from_pretrained(self.folder / "joint", **self.options)
        lm = joint.proposal
        corpus = self.documents("test")
        with self.timed("evaluation", again=True):
            chosen = joint.held_out(corpus, m.prefix, e.windows, seed)
            judged = joint.judge(chosen, e.n, seed, self.quiet)
            found = perplexity(judged, seed)
            law = lm.law_of(m.length, space=m.space, seed=seed)
            shown = []
            for window in chosen[: e.show]:
                (samples,) = joint.weigh([window.context or lm.prompt_ids("")], e.show_n, law)
                truth = decode(lm.tokenizer, window.continuation, window.context)
                shown.append((decode(lm.tokenizer, window.context), truth, samples))
        measured = rows(found)
        if isinstance(joint.energy, Scaled):
            by = joint.energy.factor
            plain = dataclasses.replace(judged, energy=judged.energy / by, true_energy=judged.true_energy / by)
            gain = perplexity(plain, seed).gain
            name = "joint, without its fitted factor"
            measured.append(Row(name, "certified_gain_nats", gain.value, n=found.groups))
        costs = self._costs(joint, found)
        result = Result(
            name=self.recipe.name,
            claim=self.recipe.claim,
            source=self.recipe.source,
            command=command,
            seed=seed,
            data={
                "name": self.recipe.corpus.place,
                "test_windows": found.windows,
                "test_groups": found.groups,
                "test_tokens": found.tokens,
            },
            compute={
                "train_flops": self._train_flops(joint),
                "seconds": round(sum(self.seconds.values()), 1),
                "size": self.recipe.size,
                **self.seconds,
            },
            rows=measured,
            held=held(found),
            note=sentence(found),
        )
        file = self.folder / "results" / f"{self.recipe.name}.json"
        result = write_result(file, result)
        page = Report(self.recipe.title, sentence(found), provenance(seed), summary(found, shown, costs))
        return Evaluated(found, result, file, save(page, self.folder / "report"))

    def _costs(self, joint: Joint, found: Perplexity) -> list[tuple[str, Cell, Cell, Cell]]:
        """(part, parameters, tokens or texts, seconds)."""
        mined = Mined(self.folder / "mined")
        parts: list[tuple[str, Cell, Cell]] = [
            ("language model", size(joint.proposal.lm.model), self._lm_tokens()),
            ("mining", None, len(mined.negatives)),
            ("energy", size(joint.energy), len(mined.real) + len(mined.negatives)),
            ("evaluation", None, found.n * found.windows),
        ]
        return [(name, count, amount, round(self.seconds.get(name, 0.0), 1)) for name, count, amount in parts]

    def _lm_tokens(self) -> int | None:
        """The tokens that the language model was trained on here."""
        m, history = self.recipe.lm, self.folder / "lm" / "history.json"
        return files.read_json(history)["step"] * m.batch * m.length if m.start is None else None

    def _train_flops(self, joint: Joint) -> float:
        """Of all that was trained here; mining is part of the price."""
        mined, e, model = Mined(self.folder / "mined"), self.recipe.energy, joint.proposal.lm.model
        steps = files.read_json(self.folder / "energy" / "history.json")["step"]
        seen = steps * e.batch * (1 + e.negatives) * mined.real.flat.numel() / len(mined.real)
        drawn = mined.real.flat.numel() + mined.negatives.flat.numel()
        language_model = flops(self._lm_tokens() or 0, drawn, multiplied(model, model.get_output_embeddings()))
        return language_model + flops(seen, 0, multiplied(joint.energy))


def _flat(content: Mapping[str, Any], under: str = "") -> dict[str, Any]:
    """A table of tables as one, its keys joined by dots."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        found |= _flat(value, f"{under}{key}.") if isinstance(value, Mapping) else {f"{under}{key}": value}
    return found
