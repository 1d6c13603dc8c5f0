"""A report on disk: report.json, which is the report, and report.md and report.html, made from it."""

from pathlib import Path

from lexergy.core.files import read_json, write_json, write_text
from lexergy.report.document import Report
from lexergy.report.html import render_html
from lexergy.report.markdown import render_markdown


def save(report: Report, folder: Path) -> Path:
    """Write a report's three files into a folder; answers where the HTML is."""
    # The data first: where the extra that draws is absent, nothing measured is lost.
    write_json(folder / "report.json", report.to_json())
    write_text(folder / "report.md", render_markdown(report))
    page = folder / "report.html"
    write_text(page, render_html(report))
    return page


def load(place: Path) -> Report:
    """Read a report back from its folder or its JSON file."""
    return Report.from_json(read_json(place / "report.json" if place.is_dir() else place))
