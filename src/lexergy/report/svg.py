"""A figure as SVG to be set inside a page: no date, no outside address, its colours the page's own variables.

The same figure gives the same bytes. Identifiers carry the plot's name, since all plots of a page share one
space of names; text stays text, in the page's type.
"""

import html
import io
import re
import warnings
from typing import Final

from lexergy.core.errors import LexergyError
from lexergy.report.document import Bars, Histogram, Lines
from lexergy.report.plots import GRID, INK, SERIES, SOFT, figure
from lexergy.report.words import visible

VARIABLES: Final = {
    INK: "var(--ink)",
    SOFT: "var(--soft)",
    GRID: "var(--rule)",
    **{value: f"var(--series-{i})" for i, value in enumerate(SERIES)},
}
"""The plots' colours → the page's variables, which have a light and a dark value."""


def svg(section: Lines | Histogram | Bars, name: str) -> str:
    """The SVG element of a section's figure. `name`: a word that no other plot of the page has."""
    try:
        import matplotlib
        import matplotlib.style
    except ImportError as error:
        raise LexergyError("Plots need matplotlib, which is not installed: pip install 'lexergy[report]'.") from error
    buffer = io.BytesIO()
    # A user's own style would change the bytes, and so would a random salt; both are put back afterwards.
    with (
        matplotlib.style.context("default"),
        matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}),
        warnings.catch_warnings(),
    ):
        # The figure's font only measures: the page's own fonts draw, and they know more glyphs.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure(section).savefig(
            buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    return _embedded(buffer.getvalue().decode("utf-8"), name, section.title)


def _embedded(file: str, name: str, title: str) -> str:
    """A standalone SVG file made part of a page."""
    text = file[file.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", text, flags=re.DOTALL)
    opening, rest = text.split(">", 1)
    box = opening[opening.index("viewBox=") :].split('"')[1]
    rest = rest.replace("xlink:href=", "href=")
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', rest))
    kept = {one or other for one, other in used}
    rest = re.sub(r'\sid="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in kept else "", rest)
    rest = re.sub(r'href="#|url\(#', lambda found: f"{found[0]}{name}-", rest)
    rest = re.sub(r'style="[^"]*"', lambda found: _with_variables(found[0]), rest)
    return f'<svg viewBox="{box}" role="img" aria-label="{html.escape(visible(title))}">{rest}'.strip()


def _with_variables(style: str) -> str:
    for value, variable in VARIABLES.items():
        style = style.replace(value, variable)
    return style
