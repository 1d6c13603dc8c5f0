"""Numbers as a reader meets them: four digits that count, and words where there is no number."""

import math
from collections.abc import Sequence

from lexergy.core.unicode import writable
from lexergy.report.document import Cell

DIGITS = 4
"""How many significant digits a measured number is shown with; the data keep them all."""


def number(value: float | int) -> str:
    """One number on its own."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.{DIGITS - 2}e}".split("e")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return _fixed(value, _decimals(value))


def shown(cell: Cell) -> str:
    """A cell on its own."""
    if cell is None:
        return "none"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return cell if isinstance(cell, str) else number(cell)


def column(cells: Sequence[Cell]) -> list[str]:
    """A table's column: its fractions share one number of decimals, so that they compare at a glance."""
    fractions = [abs(cell) for cell in cells if isinstance(cell, float) and math.isfinite(cell) and cell != 0]
    if not fractions or not 1e-4 <= min(fractions) <= max(fractions) < 1e7:
        return [shown(cell) for cell in cells]
    decimals = _decimals(max(fractions))
    if min(fractions) < 10.0 ** (1 - decimals):  # the small ones would lose all but one of their digits
        return [shown(cell) for cell in cells]
    return [
        _fixed(cell, decimals) if isinstance(cell, float) and math.isfinite(cell) else shown(cell) for cell in cells
    ]


def numeric(cells: Sequence[Cell]) -> bool:
    """Whether a column holds numbers, and is set flush right."""
    return any(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells) and not any(
        isinstance(cell, str | bool) for cell in cells
    )


def visible(text: str) -> str:
    """A text as it can be shown anywhere: control characters, which some formats forbid, as pictures."""
    shown_as = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {
        0x7F: 0x2421,
        0xFFFE: 0xFFFD,
        0xFFFF: 0xFFFD,
    }
    return writable(text.translate(shown_as))


def _decimals(value: float) -> int:
    return max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))


def _fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace("-", "−")
