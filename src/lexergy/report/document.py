"""A report as data: what was made, by what, and the sections a person reads; no markup, no figures.

*Example*

    report = Report(
        title="Books",
        summary="What the energy adds to the language model.",
        provenance=provenance(seed=0),
        sections=[
            KeyFigures([KeyFigure("certified perplexity", 27.5, "was 28.5 without the energy")]),
            Table("Systems", ["system", "perplexity"], [["language model", 28.5], ["joint model", 27.5]]),
        ],
    )
    save(report, Path("runs/books/report"))        # lexergy.report.store

Key figures go first: what stands first is read first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.provenance import Provenance
from lexergy.report.records import decode, encode

Cell = str | bool | int | float | None
"""What a table cell or a key figure holds; None where there is nothing, an upper bound at n = 1 say."""


@dataclass(frozen=True)
class KeyFigure:
    """One number to remember, and the half-sentence that gives it its meaning."""

    label: str
    value: Cell
    detail: str = ""


@dataclass(frozen=True)
class KeyFigures:
    """The few numbers to remember."""

    figures: Sequence[KeyFigure]


@dataclass(frozen=True)
class Prose:
    """Plain text; an empty line separates paragraphs."""

    title: str
    text: str


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        for i, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise LexergyError(
                    f"Row {i} of the table {self.title!r} has {len(row)} cells, but there are "
                    f"{len(self.columns)} columns: {', '.join(self.columns)}."
                )


@dataclass(frozen=True)
class Series:
    """One curve, with its interval at each point where there is one."""

    name: str
    x: Sequence[float | int]
    y: Sequence[float | int]
    low: Sequence[float | int] | None = None
    high: Sequence[float | int] | None = None

    def __post_init__(self) -> None:
        lengths = {len(values) for values in (self.x, self.y, self.low, self.high) if values is not None}
        if len(lengths) > 1:
            raise LexergyError(
                f"The series {self.name!r} has x, y and intervals of different lengths: {sorted(lengths)}."
            )
        if (self.low is None) != (self.high is None):
            raise LexergyError(
                f"The series {self.name!r} has one end of its interval but not the other: give low and high."
            )


@dataclass(frozen=True)
class Level:
    """A horizontal line for reference: chance, a floor, the exact value."""

    name: str
    value: float | int


@dataclass(frozen=True)
class Lines:
    """Curves over a common axis. `note` says what one should see."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    note: str = ""
    lines: Sequence[Level] = field(default_factory=list)


@dataclass(frozen=True)
class Group:
    """Values of one kind, to be compared with others as a distribution."""

    name: str
    values: Sequence[float | int]


@dataclass(frozen=True)
class Histogram:
    """Distributions over one axis; each shows shares, so that groups of different sizes compare."""

    title: str
    x_label: str
    series: Sequence[Group]
    note: str = ""


@dataclass(frozen=True)
class Bar:
    """One named value, with its interval where there is one."""

    name: str
    value: float | int
    low: float | int | None = None
    high: float | int | None = None

    def __post_init__(self) -> None:
        if (self.low is None) != (self.high is None):
            raise LexergyError(
                f"The bar {self.name!r} has one end of its interval but not the other: give low and high."
            )


@dataclass(frozen=True)
class Bars:
    """Named values side by side."""

    title: str
    y_label: str
    bars: Sequence[Bar]
    note: str = ""


@dataclass(frozen=True)
class TextItem:
    """One text, after its context. Successive items with the same context are shown side by side."""

    title: str
    context: str
    text: str
    detail: str = ""


@dataclass(frozen=True)
class Texts:
    """Texts to read: continuations before and after, say."""

    title: str
    items: Sequence[TextItem]
    note: str = ""


Section = KeyFigures | Prose | Table | Lines | Histogram | Bars | Texts

_KINDS: dict[str, type[Section]] = {
    kind.__name__: kind for kind in (KeyFigures, Prose, Table, Lines, Histogram, Bars, Texts)
}


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    summary: str
    provenance: Provenance
    sections: Sequence[Section]

    def to_json(self) -> dict[str, Any]:
        """A plain mapping; every section says what kind it is."""
        return {
            "title": encode(self.title),
            "summary": encode(self.summary),
            "provenance": encode(self.provenance),
            "sections": [{"kind": type(section).__name__, **encode(section)} for section in self.sections],
        }

    @staticmethod
    def from_json(value: Any) -> "Report":
        """The inverse of `to_json`."""
        if not isinstance(value, dict) or not isinstance(value.get("sections"), list):
            raise LexergyError(
                "This is not a report, which is a JSON object with title, summary, provenance and sections."
            )
        whole = decode(Report, {**value, "sections": []}, "report")
        sections = [_section(item, f"sections[{i}]") for i, item in enumerate(value["sections"])]
        return Report(whole.title, whole.summary, whole.provenance, sections)


def _section(value: Any, where: str) -> Section:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise LexergyError(f"{where} does not say its kind.")
    if value["kind"] not in _KINDS:
        raise unknown("kind of section", value["kind"], _KINDS)
    return decode(_KINDS[value["kind"]], {name: item for name, item in value.items() if name != "kind"}, where)
