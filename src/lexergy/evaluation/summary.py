"""The page of a residual model: what the energy is worth, in numbers first, then in plots, then in texts.

From a `Perplexity` and some samples to the sections of a report; nothing is measured here.
"""

import math
from collections.abc import Sequence

import torch

from lexergy.core import bounds
from lexergy.core.random import Keyed
from lexergy.core.types import Estimate, Samples
from lexergy.evaluation.perplexity import Perplexity
from lexergy.report.document import (
    Cell,
    Group,
    Histogram,
    KeyFigure,
    KeyFigures,
    Level,
    Lines,
    Prose,
    Section,
    Series,
    Table,
    TextItem,
    Texts,
)
from lexergy.report.results import Row


def summary(
    found: Perplexity, shown: Sequence[tuple[str, str, Samples]], compute: Sequence[tuple[str, Cell, Cell, Cell]]
) -> list[Section]:
    """Sections. `shown`: (prompt, true continuation, samples). `compute`: (part, parameters, tokens or texts, seconds)."""
    return [
        _figures(found),
        _table(found),
        _verdict(found),
        _curve(found),
        _densities(found),
        _weights(found),
        _texts(shown),
        Table(
            "What it cost",
            ["part", "parameters", "tokens or texts", "seconds"],
            compute,
            "Training, mining and initialisation included, as they ran for this page.",
        ),
    ]


LEAST_GROUPS = 20
"""Documents below which a bootstrap's interval is too narrow to hold a claim."""


def held(found: Perplexity) -> bool:
    """Whether the claim does: the certified perplexity is below the language model's, interval and all."""
    return found.groups >= LEAST_GROUPS and found.saved.low > 0


def sentence(found: Perplexity) -> str:
    """What was found, in two sentences; in three where there are too few documents to claim anything."""
    change = found.saved
    verdict = "below" if held(found) else "not shown to be below"
    few = f" Its {found.groups} documents are too few to claim anything: {LEAST_GROUPS} at least."
    state = "resolved" if found.resolved else "unresolved (" + "; ".join(found.resolution.reasons) + ")"
    return (
        f"The certified perplexity is {found.certified.value:.2f}, {verdict} the language model's {found.base.value:.2f} "
        f"(saved {change.value:.2f}, 95 % interval {change.low:.2f} to {change.high:.2f}, n = {found.n}). The bounds on "
        f"log Z are {state}." + (few if found.groups < LEAST_GROUPS else "")
    )


def rows(found: Perplexity) -> list[Row]:
    """The rows of a results file; what is not finite is left out."""
    measured = [
        ("language model", "perplexity", found.base),
        ("joint", "perplexity_lower", found.lower),
        ("joint", "perplexity_upper", found.upper),
        ("joint", "perplexity_certified", found.certified),
        ("joint", "certified_gain_nats", found.gain),
    ]
    out = [
        Row(system, metric, one.value, *_interval(one), n=found.groups)
        for system, metric, one in measured
        if math.isfinite(one.value)
    ]
    out.append(Row("joint", "detection_accuracy", found.accuracy, n=found.windows))
    out.append(Row("joint", "median_ess", found.resolution.median_ess, n=found.n))
    return out


def _interval(one: Estimate) -> tuple[float | None, float | None]:
    """The interval, if there is one: a single document gives none."""
    if not (math.isfinite(one.low) and math.isfinite(one.high)):
        return None, None
    # Quantiles of resampled documents may miss the value itself where documents are few.
    return min(one.low, one.value), max(one.high, one.value)


def _figures(found: Perplexity) -> KeyFigures:
    share = 1 - found.certified.value / found.base.value
    return KeyFigures(
        [
            KeyFigure("language model", round(found.base.value, 2), "perplexity on held-out text"),
            KeyFigure(
                "with its energy",
                round(found.certified.value, 2),
                f"certified perplexity, {share:.1%} lower"
                if share > 0
                else f"certified perplexity, {-share:.1%} higher",
            ),
            KeyFigure(
                "gain",
                round(found.gain.value, 3),
                f"nats a continuation, certified; 95 % interval {found.gain.low:.3f} to {found.gain.high:.3f}",
            ),
            KeyFigure("told apart", f"{found.accuracy:.1%}", "true from machine continuations; chance is 50 %"),
        ]
    )


def _row(name: str, value: Estimate, what: str) -> list[Cell]:
    return [name, value.value, value.low, value.high, what]


def _table(found: Perplexity) -> Table:
    rows = [
        _row("language model", found.base, "log P_LM alone"),
        _row("joint model, lower", found.lower, "with T_n, the lower estimate of log Z"),
        _row("joint model, upper", found.upper, "with U_n, the upper estimate of log Z"),
        _row("joint model, certified", found.certified, f"Algorithm 1 with n = {found.n}; holds at this n"),
        _row("saved", found.saved, "language model minus certified, paired"),
    ]
    note = (
        f"{found.windows} windows of {found.groups} documents, {found.tokens} tokens, n = {found.n} draws each. Intervals: 95 %, "
        "bootstrap over documents."
    )
    return Table("Perplexity on held-out text", ["system", "value", "low", "high", "what it is"], rows, note)


def _verdict(found: Perplexity) -> Prose:
    r = found.resolution
    state = "Resolved" if r.resolved else "Unresolved"
    lines = [
        f"{state}: the median effective sample size is {r.median_ess:.0f} of {r.n}, the largest weight {r.largest_weight:.2f}; "
        f"from half the draws to all of them log Z moved by {r.drift:+.4f} nats; the true continuation outweighs every draw in "
        f"{r.on_top:.1%} of windows."
    ]
    if r.reasons:
        lines.append("Why not resolved: " + "; ".join(r.reasons) + ".")
    lines.append(
        "The two bounds can agree and both be wrong; the certified perplexity holds at every n, and a claim rests on it alone."
    )
    return Prose("Can the bounds be believed?", "\n\n".join(lines))


def _curve(found: Perplexity) -> Lines:
    judged = found.judged
    curve = bounds.prefix_curve(judged.energy, judged.true_energy)
    mass = float(judged.sizes.sum())

    def ppl(log_prob: torch.Tensor) -> list[float]:
        return torch.exp(-log_prob.sum(0) / mass).tolist()

    plain = (judged.log_p - judged.true_energy)[:, None]
    gain = curve.gain if curve.gain is not None else torch.zeros_like(curve.lower)
    return Lines(
        "Perplexity against the number of draws",
        "draws a window",
        "perplexity",
        [
            Series("lower", list(curve.sizes), ppl(plain - curve.lower)),
            Series("upper", list(curve.sizes), ppl(plain - curve.upper)),
            Series("certified", list(curve.sizes), ppl(judged.log_p[:, None] + gain)),
        ],
        log_x=True,
        note="The two bounds close in on each other as draws are added; the certified value falls towards them from above.",
        lines=[Level("language model", found.base.value)],
    )


def _densities(found: Perplexity) -> Histogram:
    judged = found.judged
    streams = Keyed.grid(0, range(len(judged.energy)), [0]).at("densities")
    joint = judged.energy.gather(1, streams.categorical(-judged.energy)[:, None]).squeeze(1)
    return Histogram(
        "Energies",
        "energy (lower = likelier)",
        [
            Group("true continuations", judged.true_energy.tolist()),
            Group("drawn from the language model", judged.energy[:, 0].tolist()),
            Group("drawn from the joint model", joint.tolist()),
        ],
        "A good energy puts true continuations to the left of the language model's; resampling by weight moves the draws there.",
    )


def _weights(found: Perplexity) -> Histogram:
    ess, _ = bounds.sample_size_and_top(found.judged.energy)
    return Histogram(
        "Effective sample sizes",
        f"effective draws of {found.n}",
        [Group("windows", ess.tolist())],
        "How many equally weighted draws each window's estimate is worth. Far below 50, nothing about log Z is resolved.",
    )


def _texts(shown: Sequence[tuple[str, str, Samples]]) -> Texts:
    items = []
    for prompt, truth, samples in shown:
        best = int(samples.weight.argmax())
        items += [
            TextItem("as the text went on", prompt, truth),
            TextItem("language model, first draw", prompt, samples.texts[0], f"energy {float(samples.energy[0]):.2f}"),
            TextItem(
                "joint model, resampled",
                prompt,
                samples.pick(1)[0],
                f"one of {len(samples)} draws, by weight; ESS {samples.ess:.0f}",
            ),
            TextItem("lowest energy", prompt, samples.texts[best], f"energy {float(samples.energy[best]):.2f}"),
        ]
    return Texts(
        "Continuations", items, "Each prompt goes on four ways. Small models write small sense; compare the four."
    )
