"""A section's data as a matplotlib figure: one look, colours for colour-blind readers too, nothing global.

Curves differ in dash as well as in colour. Legends are not drawn: the page sets them as text beside the plot,
where they wrap on a phone. Values that are not finite are left out here, and the caption counts them
(`left_out`).
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from lexergy.core.errors import LexergyError
from lexergy.report.document import Bars, Histogram, Lines
from lexergy.report.words import number, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#2b2a27"
SOFT: Final = "#79756c"
GRID: Final = "#e3dfd6"
SERIES: Final = ("#0072b2", "#d55e00", "#009e73", "#b35a91", "#b98500", "#4a9fd0")
"""Blue, vermilion, green, purple, ochre, sky: distinct to colour-blind readers (after Okabe and Ito)."""

DASHES: Final[tuple[tuple[float, ...], ...]] = ((), (6.0, 2.5), (1.5, 1.8), (7.0, 2.0, 1.5, 2.0))
"""Drawn lengths and gaps, in line widths; empty: solid."""

LEVEL: Final = (3.0, 3.0)
"""The dashes of lines of reference."""

WIDTH: Final = 6.2
_FONT: Final = 9.5
_BINS: Final = 48


def colour(i: int) -> str:
    """The colour of the i-th series."""
    return SERIES[i % len(SERIES)]


def dashes(i: int) -> tuple[float, ...]:
    """The dash pattern of the i-th series."""
    return DASHES[i % len(DASHES)]


def figure(section: Lines | Histogram | Bars) -> "Figure":
    """The figure of a section."""
    if isinstance(section, Lines):
        return lines(section)
    return histogram(section) if isinstance(section, Histogram) else bars(section)


def left_out(section: Lines | Histogram | Bars) -> int:
    """How many values a figure cannot show: not finite, or on a logarithmic axis not above zero."""
    if isinstance(section, Lines):
        points = [(x, y) for series in section.series for x, y in zip(series.x, series.y, strict=True)]
        return sum(not (math.isfinite(x) and math.isfinite(y) and (x > 0 or not section.log_x)) for x, y in points)
    values = (
        [v for group in section.series for v in group.values]
        if isinstance(section, Histogram)
        else [bar.value for bar in section.bars]
    )
    return sum(not math.isfinite(value) for value in values)


def lines(section: Lines) -> "Figure":
    """Curves with their intervals as bands, and horizontal lines of reference."""
    fig, axes = _axes(3.3)
    for i, series in enumerate(section.series):
        x = [value if math.isfinite(value) and (value > 0 or not section.log_x) else math.nan for value in series.x]
        y = _finite(series.y)
        if series.low is not None and series.high is not None:
            axes.fill_between(x, _finite(series.low), _finite(series.high), color=colour(i), alpha=0.16, linewidth=0)
        few = len(x) <= 12
        axes.plot(
            x,
            y,
            color=colour(i),
            linewidth=1.7,
            marker="o" if few else None,
            markersize=3.6,
            dashes=dashes(i) or (None, None),
        )
    for level in section.lines:
        if math.isfinite(level.value):
            axes.axhline(level.value, color=SOFT, linewidth=1.1, dashes=LEVEL)
    if section.log_x:
        _log_axis(
            axes,
            [value for series in section.series for value in series.x if math.isfinite(value) and value > 0],
        )
    _label(axes, section.x_label, section.y_label)
    return fig


def histogram(section: Histogram) -> "Figure":
    """Distributions as outlined shares over common bins."""
    import numpy

    fig, axes = _axes(3.0)
    groups = [[value for value in group.values if math.isfinite(value)] for group in section.series]
    edges = _edges([value for group in groups for value in group])
    for i, group in enumerate(groups):
        if group:
            counts, _ = numpy.histogram(group, bins=edges)
            axes.stairs(counts / len(group), edges, fill=True, color=colour(i), alpha=0.16, linewidth=0)
            axes.stairs(
                counts / len(group),
                edges,
                color=colour(i),
                linewidth=1.6,
                linestyle=(0, dashes(i)) if dashes(i) else "-",
            )
    axes.set_ylim(bottom=0)
    _label(axes, section.x_label, "share")
    return fig


def bars(section: Bars) -> "Figure":
    """Named values: bars that stand on zero or, where zero is far away, dots, which need no zero."""
    fig, axes = _axes(0.75 + 0.4 * max(1, len(section.bars)))
    ends = [
        end for bar in section.bars for end in (bar.value, bar.low, bar.high) if end is not None and math.isfinite(end)
    ]
    far = bool(ends) and min(ends) > 0 and max(ends) - min(ends) < 0.35 * max(ends)
    for i, bar in enumerate(section.bars):
        if not math.isfinite(bar.value):
            continue
        last = bar.value
        if far:
            axes.plot([bar.value], [i], "o", color=colour(0), markersize=6)
        else:
            axes.barh([i], [bar.value], height=0.56, color=colour(0), alpha=0.82, linewidth=0)
        if bar.low is not None and bar.high is not None and math.isfinite(bar.low) and math.isfinite(bar.high):
            axes.plot(
                [bar.low, bar.high],
                [i, i],
                color=INK if not far else colour(0),
                linewidth=1.4,
                solid_capstyle="butt",
            )
            last = max(bar.high, bar.value)
        end = last if far else max(last, 0.0)
        text = axes.annotate(number(bar.value), (end, i), xytext=(6, 0), textcoords="offset points", va="center")
        text.set(color=INK, fontsize=_FONT - 0.5, clip_on=False)
    axes.set_yticks(range(len(section.bars)))
    axes.set_yticklabels([textwrap.fill(visible(bar.name), 26) for bar in section.bars], parse_math=False, color=INK)
    axes.set_ylim(max(1, len(section.bars)) - 0.5, -0.5)
    axes.margins(x=0.14)
    if not far and ends and min(ends) >= 0:
        axes.set_xlim(left=0)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(False, axis="y")
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    _label(axes, section.y_label, "")
    return fig


def _axes(height: float) -> "tuple[Figure, Axes]":
    """An empty pair of axes in the house's look, on a figure of its own."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter
    except ImportError as error:
        raise LexergyError("Plots need matplotlib, which is not installed: pip install 'lexergy[report]'.") from error
    fig = Figure(figsize=(WIDTH, height), layout="constrained")
    fig.patch.set_visible(False)
    axes = fig.add_subplot()
    axes.patch.set_visible(False)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(SOFT)
        axes.spines[side].set_linewidth(0.8)
    axes.tick_params(colors=SOFT, labelsize=_FONT - 0.5, width=0.8, length=3)
    axes.grid(True, axis="y", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    return fig, axes


def _label(axes: "Axes", x_label: str, y_label: str) -> None:
    style: dict[str, Any] = {"color": INK, "fontsize": _FONT, "parse_math": False}
    axes.set_xlabel(visible(x_label), **style)
    axes.set_ylabel(visible(y_label), **style)


def _log_axis(axes: "Axes", values: Sequence[float | int]) -> None:
    """Powers of ten on the axis, and their simple multiples where there are few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    wide = bool(values) and max(values) / min(values) > 300
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _tick(value: float, _position: int | None = None) -> str:
    """A tick's label: ticks are round numbers, so no digit is lost."""
    text = f"{value:,.10g}" if value == 0 or 1e-4 <= abs(value) < 1e7 else f"{value:.4g}"
    return text.replace("-", "−")


def _finite(values: Iterable[float | int]) -> list[float]:
    return [float(value) if math.isfinite(value) else math.nan for value in values]


def _edges(values: Sequence[float | int]) -> Any:
    """Common bin edges: about 2·IQR/∛n wide (Freedman and Diaconis), between 8 and 48 of them."""
    import numpy

    if not values:
        return numpy.linspace(0.0, 1.0, 9)
    low, high = float(min(values)), float(max(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    quarter, three = numpy.quantile(values, [0.25, 0.75])
    width = 2 * float(three - quarter) / len(values) ** (1 / 3)
    wanted = math.ceil((high - low) / width) if width > 0 else _BINS
    return numpy.linspace(low, high, min(max(wanted, 8), _BINS) + 1)
