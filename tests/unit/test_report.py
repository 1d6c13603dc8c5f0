"""A report: the same data, the same bytes; nothing loaded from anywhere; no text that becomes markup."""

import html.parser
import json
import math
import re

import pytest

from lexergy.core.errors import LexergyError
from lexergy.core.provenance import Provenance
from lexergy.report import document, plots, words
from lexergy.report.document import (
    Bar,
    Bars,
    Group,
    Histogram,
    KeyFigure,
    KeyFigures,
    Level,
    Lines,
    Prose,
    Report,
    Series,
    Table,
    TextItem,
    Texts,
)
from lexergy.report.html import render_html
from lexergy.report.markdown import code, render_markdown, table
from lexergy.report.store import load, save

HOSTILE = (
    "<script>alert(1)</script> & \"x\" 'y' </svg></style> {{ 7 * 7 }} $\\frac{1}$ --> \x00\x1b \ud800 _[a](http://b)_"
)


def _report(text="a plain text"):
    origin = Provenance(
        "0123456789abcdef",
        True,
        3,
        {"python": "3.11", text: "1"},
        "2 cores " + text,
        "lexergy " + text,
        "2026",
    )
    numbers = [0.1 * i for i in range(40)]
    return Report(
        text,
        text + "\n\nmore",
        origin,
        [
            KeyFigures(
                [
                    KeyFigure(text, 27.512345, text),
                    KeyFigure("b", text),
                    KeyFigure("c", None),
                    KeyFigure("d", math.nan),
                ]
            ),
            Table(text, [text, "value"], [[text, 1.5], ["b", None], ["c", math.inf], ["d", 3]], note=text),
            Lines(
                text,
                text,
                text,
                [
                    Series(text, [1, 2, 3], [1.0, math.nan, 2.0], [0.5, 0.5, 1.5], [1.5, 2.0, 2.5]),
                    Series("_b", [1, 2], [math.inf, 1]),
                ],
                log_x=True,
                note=text,
                lines=[Level(text, 1.5), Level("b", math.inf)],
            ),
            Lines("one", "x", "y", [Series("a", numbers, numbers)]),
            Histogram(
                text,
                text,
                [Group(text, [*numbers, math.nan]), Group("none", []), Group("one", [2])],
                note=text,
            ),
            Bars(text, text, [Bar(text, 1.0, 0.5, 1.5), Bar("b", -2.0), Bar("c", math.nan)], note=text),
            Bars("dots", "perplexity", [Bar("a", 28.5, 28.0, 29.0), Bar("b", 27.5, 27.0, 28.0)]),
            Texts(
                text,
                [TextItem(text, text, text, text), TextItem("b", text, "c"), TextItem("d", "", "")],
                note=text,
            ),
            Prose(text, text + "\n\n" + text),
        ],
    )


class _Page(html.parser.HTMLParser):
    """What tags and attributes a browser would see, and which identifiers."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words = set(), [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data):
        self.words.append(data)


def test_hostile_texts_stay_texts():
    page = render_html(_report(HOSTILE))
    seen = _Page(page)
    assert seen.tags == _Page(render_html(_report())).tags  # a text from a model adds no element of its own
    assert "script" not in seen.tags
    assert any("<script>alert(1)</script>" in text and "{{ 7 * 7 }}" in text for text in seen.words)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", page)
    page.encode("utf-8")


def test_the_page_needs_nothing_else():
    page = render_html(_report())
    seen = _Page(page)
    assert not seen.tags & {"script", "link", "img", "iframe", "object", "image", "base"}
    assert "http://" not in page
    assert "https://" not in page
    assert "@import" not in page
    assert all(value.startswith("#") for name, value in seen.attributes if name in ("href", "src", "xlink:href"))
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", page))


def test_identifiers_are_unique_and_every_reference_has_its_target():
    seen = _Page(render_html(_report()))
    names = [value for name, value in seen.attributes if name == "id"]
    assert len(names) == len(set(names))
    styles = " ".join(value for _, value in seen.attributes if value)
    wanted = {value[1:] for name, value in seen.attributes if name == "href"} | set(
        re.findall(r"url\(#([^)]+)\)", styles)
    )
    assert wanted
    assert wanted <= set(names)


def test_the_same_report_gives_the_same_bytes():
    import matplotlib

    first = render_html(_report())
    with matplotlib.rc_context({"axes.facecolor": "red", "svg.hashsalt": "other", "font.size": 30, "axes.grid": True}):
        assert render_html(_report()) == first  # a user's own style is not ours
        assert matplotlib.rcParams["svg.hashsalt"] == "other"  # and stays as it was
    assert render_html(_report("another")) != first
    assert render_markdown(_report()) == render_markdown(_report())


def test_plots_follow_the_page_in_colour():
    page = render_html(_report())
    assert "var(--series-0)" in page[page.index("<main>") :]
    for value in (plots.INK, plots.SOFT, plots.GRID, *plots.SERIES):
        assert value not in page[page.index("<main>") :]  # a fixed colour would vanish in the dark


def test_round_trip_through_files(tmp_path):
    report = _report()
    page = save(report, tmp_path / "run")
    assert sorted(file.name for file in page.parent.iterdir()) == ["report.html", "report.json", "report.md"]
    json.loads(
        (page.parent / "report.json").read_text(),
        parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
    )
    for place in (page.parent, page.parent / "report.json"):
        again = load(place)
        # nan is not equal to itself, so the data are compared in their JSON form.
        assert again.to_json() == report.to_json()
        assert isinstance(again.sections[2], Lines)
        assert again.sections[2].lines[1].value == math.inf
        assert render_html(again) == page.read_text()
    plain = Report(
        "t",
        "s",
        report.provenance,
        [Table("a", ["b"], [[1], [1.5], ["c"], [True], [None]]), Lines("a", "b", "c", [])],
    )
    save(plain, tmp_path / "plain")
    assert load(tmp_path / "plain") == plain


def test_hostile_texts_can_be_saved(tmp_path):
    save(_report(HOSTILE), tmp_path)
    assert "<script>" in load(tmp_path).title


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda value: value.pop("title"), "lacks the field 'title'"),
        (lambda value: value.update(titel="x"), "Did you mean 'title'"),
        (lambda value: value.update(title=3), "report.title should be str; received int"),
        (lambda value: value["provenance"].update(seed="3"), "report.provenance.seed"),
        (lambda value: value["sections"][1].update(kind="Tabel"), "Did you mean 'Table'"),
        (
            lambda value: value["sections"][3]["series"][0].update(y=["a"] * 40),
            r"sections\[3\].series\[0\].y\[0\]",
        ),
        (lambda value: value["sections"].append({"title": "x"}), r"sections\[9\] does not say its kind"),
        (lambda value: value.pop("sections"), "This is not a report"),
    ],
)
def test_a_broken_file_says_where(change, says):
    value = _report().to_json()
    change(value)
    with pytest.raises(LexergyError, match=says):
        Report.from_json(value)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Table("t", ["a", "b"], [[1, 2], [1]]), "Row 1 of the table 't' has 1 cells"),
        (lambda: Series("s", [1, 2], [1]), "different lengths"),
        (lambda: Series("s", [1], [1], low=[0]), "series 's' has one end of its interval"),
        (lambda: Bar("b", 1, high=2), "bar 'b' has one end of its interval"),
    ],
)
def test_data_that_do_not_fit_are_refused(make, says):
    with pytest.raises(LexergyError, match=says):
        make()


def test_a_tensor_is_refused_by_name():
    import torch

    with pytest.raises(LexergyError, match=r"received Tensor\. .*\.item\(\)"):
        document.encode(torch.ones(1))


@pytest.mark.parametrize(
    ("value", "words_"),
    [
        (math.nan, "not a number"),
        (math.inf, "infinite"),
        (-math.inf, "minus infinite"),
        (None, "none"),
        (True, "yes"),
        (0.0, "0"),
        (27.512345, "27.51"),
        (-1.2, "−1.200"),
        (12345.678, "12,346"),
        (1024, "1,024"),
        (1.5e-7, "1.50e−7"),
        (3.2e12, "3.20e12"),
        ("x", "x"),
    ],
)
def test_numbers_in_words(value, words_):
    assert words.shown(value) == words_


def test_a_column_shares_its_decimals_unless_that_would_hide_a_number():
    assert words.column([28.48123, 9.5, None, 3]) == ["28.48", "9.50", "none", "3"]
    assert words.column([28.48123, 0.00123]) == ["28.48", "0.001230"]


def test_markdown_tables_hold_together():
    text = table(["a|b", "n"], [["x | y\nz", 1.5], ["`c` <b>", math.nan]])
    rows = text.splitlines()
    assert len(rows) == 4
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows)
    assert rows[1] == "| --- | ---: |"
    assert "not a number" in text
    assert "\\<b\\>" in text
    assert code("a `b` ``c") == "``` a `b` ``c ```"


def test_markdown_shows_every_section_and_thins_long_curves():
    text = render_markdown(_report("name"))
    assert text.count("\n## ") == 8
    assert "0123456789abcdef" in text
    assert "with changes not committed" in text
    rows = [
        row
        for row in text[text.index("## one") : text.index("## name", text.index("## one"))].splitlines()
        if row.startswith("|")
    ]
    assert 10 < len(rows) <= 27
    assert rows[-1].startswith("| 3.900 ")  # the last point is kept


def test_both_forms_open_with_where_it_came_from():
    for text in (render_html(_report()), render_markdown(_report())):
        positions = [
            text.index(part)
            for part in (
                "0123456789abcdef",
                "with changes not committed",
                "2 cores",
                "lexergy a plain",
                "27.51",
            )
        ]
        assert max(positions[:4]) < positions[4]


def test_dots_stand_in_for_bars_where_zero_is_far():
    near = plots.bars(Bars("t", "y", [Bar("a", 1.0), Bar("b", 5.0)])).axes[0]
    assert len(near.patches) == 2
    assert near.get_xlim()[0] == 0
    far = plots.bars(Bars("t", "y", [Bar("a", 28.5), Bar("b", 27.5)])).axes[0]
    assert len(far.patches) == 0


def test_what_is_not_drawn_is_counted():
    assert plots.left_out(Lines("t", "x", "y", [Series("a", [0, 1, 2], [1.0, math.nan, 1.0])], log_x=True)) == 2
    assert "2 values are not drawn" in render_html(
        Report("t", "", _report().provenance, [Histogram("h", "x", [Group("a", [1.0, math.nan, math.inf])])])
    )
