"""A report as one HTML file that needs nothing else: styles and plots inside, light and dark.

Every text is escaped (texts come from models), and the page's own policy forbids scripts and loading. The
same report gives the same bytes.
"""

import itertools
from collections.abc import Sequence
from typing import Any, Final

from lexergy.core.errors import LexergyError
from lexergy.report.document import Bars, Histogram, Lines, Report, Table, Texts
from lexergy.report.plots import LEVEL, SERIES, dashes, left_out
from lexergy.report.svg import svg
from lexergy.report.words import column, number, numeric, shown, visible

TEMPLATE: Final = "template.html.j2"


def render_html(report: Report) -> str:
    """The whole page."""
    try:
        import jinja2
    except ImportError as error:
        raise LexergyError(
            "An HTML report needs Jinja2, which is not installed: pip install 'lexergy[report]'."
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lexergy.report", package_path=""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters["shown"] = shown
    environment.filters["paragraphs"] = lambda text: [part.strip() for part in text.split("\n\n") if part.strip()]
    sections = [_ready(section, f"plot-{i}") for i, section in enumerate(report.sections)]
    return environment.get_template(TEMPLATE).render(report=report, origin=report.provenance, sections=sections) + "\n"


def _ready(section: Any, name: str) -> dict[str, Any]:
    """What the template needs to know about a section beyond the section itself."""
    ready: dict[str, Any] = {"kind": type(section).__name__, "data": section}
    if isinstance(section, Table):
        return {**ready, **_table(section)}
    if isinstance(section, Lines | Histogram | Bars):
        from markupsafe import Markup

        return {
            **ready,
            "plot": Markup(svg(section, name)),
            "legend": _legend(section),
            "left_out": _left_out(section),
        }
    if isinstance(section, Texts):
        return {
            **ready,
            "groups": [
                (context, list(items))
                for context, items in itertools.groupby(section.items, key=lambda item: item.context)
            ],
        }
    return ready


def _legend(section: Lines | Histogram | Bars) -> list[dict[str, str]]:
    """What each line is called, and how it is drawn."""
    if isinstance(section, Bars):
        return []
    entries = [
        {"name": each.name, "class": f"s{i % len(SERIES)}", "dashes": _dasharray(dashes(i))}
        for i, each in enumerate(section.series)
    ]
    levels = section.lines if isinstance(section, Lines) else []
    return entries + [{"name": level.name, "class": "level", "dashes": _dasharray(LEVEL)} for level in levels]


def _table(section: Table) -> dict[str, Any]:
    columns = [[row[i] for row in section.rows] for i in range(len(section.columns))]
    right = [numeric(values) for values in columns]
    rows = list(zip(*(column(values) for values in columns), strict=True))
    return {"right": right, "rows": rows}


def _dasharray(pattern: Sequence[float]) -> str:
    return " ".join(f"{2 * length:g}" for length in pattern) or "none"


def _left_out(section: Lines | Histogram | Bars) -> str:
    count = left_out(section)
    if not count:
        return ""
    return f"{number(count)} value{'s are' if count > 1 else ' is'} not drawn, being infinite or not a number."
