"""A report as Markdown: the same sections, with a table of numbers in the place of each plot."""

import math
import re
import statistics
from collections.abc import Sequence

from lexergy.core.provenance import Provenance
from lexergy.report.document import (
    Bars,
    Cell,
    Histogram,
    KeyFigures,
    Lines,
    Prose,
    Report,
    Section,
    Table,
    Texts,
)
from lexergy.report.words import column, number, numeric, shown, visible

MOST_ROWS = 24
"""A curve's table is thinned to about this many rows; report.json has all."""


def render_markdown(report: Report) -> str:
    """The whole report."""
    parts = [f"# {line(report.title)}", paragraphs(report.summary), *origin(report.provenance)]
    for section in report.sections:
        parts.extend(_section(section))
    return "\n\n".join(part for part in parts if part) + "\n"


def origin(provenance: Provenance) -> list[str]:
    """The provenance as one list."""
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
    commit = f"`{provenance.commit}`" + (", with changes not committed" if provenance.dirty else "")
    items = {
        "commit": commit,
        "seed": shown(provenance.seed),
        "versions": line(versions),
        "device": line(provenance.device),
        "command": code(provenance.command),
        "when": line(provenance.when),
    }
    return ["\n".join(f"- {name}: {text}" for name, text in items.items())]


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table with its numbers flush right."""
    by_column = [[row[i] for row in rows] for i in range(len(columns))]
    texts = [[cell(text) for text in column(values)] for values in by_column]
    rule = ["---:" if numeric(values) else "---" for values in by_column]
    lines = [[cell(name) for name in columns], rule, *(list(row) for row in zip(*texts, strict=True))]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def cell(text: str) -> str:
    """A text that stays within its table cell."""
    return line(text).replace("|", "\\|")


def line(text: str) -> str:
    """A text on one line, read as itself and not as markup."""
    flat = " ".join(visible(text).split())
    return re.sub(r"([\\`*_\[\]<>#$])", r"\\\1", flat)


def code(text: str) -> str:
    """A text on one line, set as code between more backticks than it holds."""
    flat = " ".join(visible(text).split())
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", flat)), default=0) + 1)
    return f"{ticks} {flat} {ticks}" if "`" in flat else f"`{flat}`"


def paragraphs(text: str) -> str:
    """Plain text, its empty lines kept as the borders of paragraphs."""
    return "\n\n".join(line(part) for part in text.split("\n\n") if part.strip())


def _section(section: Section) -> list[str]:
    if isinstance(section, KeyFigures):
        return [
            "\n".join(
                f"- **{line(f.label)}: {line(shown(f.value))}** {line(f.detail)}".rstrip() for f in section.figures
            )
        ]
    head = f"## {line(section.title)}"
    if isinstance(section, Prose):
        return [head, paragraphs(section.text)]
    note = paragraphs(section.note)
    if isinstance(section, Table):
        return [head, table(section.columns, section.rows), note]
    if isinstance(section, Lines):
        return [
            head,
            _lines(section),
            "\n".join(f"- {line(level.name)}: {number(level.value)}" for level in section.lines),
            note,
        ]
    if isinstance(section, Histogram):
        return [head, _histogram(section), note]
    if isinstance(section, Bars):
        rows = [[bar.name, bar.value, bar.low, bar.high] for bar in section.bars]
        intervals = any(bar.low is not None for bar in section.bars)
        columns = ["", section.y_label, "low", "high"]
        return [
            head,
            table(columns, rows) if intervals else table(columns[:2], [row[:2] for row in rows]),
            note,
        ]
    return [head, *_texts(section), note]


def _lines(section: Lines) -> str:
    points = sorted({x for series in section.series for x in series.x if not math.isnan(x)})
    step = max(1, math.ceil(len(points) / MOST_ROWS))
    kept = [x for i, x in enumerate(points) if i % step == 0 or i == len(points) - 1]
    known = [dict(zip(series.x, series.y, strict=True)) for series in section.series]
    columns = [section.x_label, *(f"{section.y_label}: {series.name}" for series in section.series)]
    return table(columns, [[x, *(values.get(x) for values in known)] for x in kept])


def _histogram(section: Histogram) -> str:
    rows: list[list[Cell]] = []
    for group in section.series:
        values = sorted(value for value in group.values if math.isfinite(value))
        if not values:
            rows.append([group.name, 0, None, None, None, None])
            continue
        low, middle, high = (values[min(len(values) - 1, int(share * len(values)))] for share in (0.05, 0.5, 0.95))
        rows.append([group.name, len(values), statistics.fmean(values), low, middle, high])
    return table([section.x_label, "n", "mean", "5 % lie below", "median", "95 % lie below"], rows)


def _texts(section: Texts) -> list[str]:
    parts: list[str] = []
    previous: str | None = None
    for item in section.items:
        if item.context and item.context != previous:
            parts.append(f"After: {code(item.context)}")
        previous = item.context
        quoted = "\n".join(f"> {line(row)}" for row in item.text.splitlines() or [""])
        detail = f" ({line(item.detail)})" if item.detail else ""
        parts.append(f"**{line(item.title)}**{detail}\n\n{quoted}")
    return parts
