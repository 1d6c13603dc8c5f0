"""Results files: complete or refused, and shown from what they say."""

import dataclasses
import json
import math

import pytest

from lexergy.core.errors import LexergyError
from lexergy.report.results import Result, Row, read_result, results_table, write_result

BENCHMARK = Row(
    "scoring",
    "tokens a second",
    4.2,
    low=4.0,
    high=4.5,
    ours=2000.0,
    other=476.0,
    other_name="plain | loop",
    ratio=4.2,
    floor=2400.0,
    share_of_floor=0.83,
    peak_memory_ratio=0.4,
    dtype="bfloat16",
    checkpoint="random, 20M",
)


def _result(**changes):
    plain = Result(
        name="generation/table1",
        claim="the joint model is below the base",
        source="generation paper, Table 1",
        command="lexergy evaluate generation/table1",
        seed=0,
        data={"name": "books", "test_windows": 160},
        compute={"seconds": 81.5, "size": "tiny", "train_flops": 1e15},
        rows=[
            Row("joint", "perplexity_upper", 27.5, 27.0, 28.0, n=160, paper=12.16),
            Row("base", "perplexity", 28.5),
        ],
        held=True,
        note="It is, by one.",
    )
    return dataclasses.replace(plain, **changes)


def test_written_and_read_back(tmp_path):
    path = tmp_path / "generation" / "table1.json"
    written = write_result(path, _result())
    assert read_result(path) == written
    assert written.commit
    assert written.device
    assert "torch" in written.versions
    value = json.loads(path.read_text())
    assert list(value) == [
        "name",
        "claim",
        "source",
        "command",
        "commit",
        "dirty",
        "seed",
        "device",
        "versions",
        "data",
        "compute",
        "rows",
        "held",
        "note",
    ]
    assert list(value["rows"][0]) == ["system", "metric", "value", "low", "high", "n", "paper"]


def test_a_benchmark_row_keeps_its_fields(tmp_path):
    path = tmp_path / "generation" / "table1.json"
    write_result(path, _result(rows=[BENCHMARK]))
    row = json.loads(path.read_text())["rows"][0]
    assert row["peak_memory_ratio"] == 0.4
    assert row["other_name"] == "plain | loop"
    assert read_result(path).rows == [BENCHMARK]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"claim": " "}, "empty claim"),
        ({"rows": []}, "no rows"),
        ({"data": {}}, "does not name its data"),
        ({"compute": {"size": "tiny"}}, "what it cost"),
        ({"compute": {"seconds": 1.0, "size": "huge"}}, "tiny, small, medium, gpu, paper; received 'huge'"),
        ({"rows": [Row("a", "m", math.nan)]}, r"Row 0 .* its value is not a number"),
        ({"rows": [Row("a", "m", 1.0, low=0.5)]}, "one end of its interval"),
        ({"rows": [Row("a", "m", 1.0, low=2.0, high=3.0)]}, "outside its interval"),
        ({"rows": [Row("a", "m", 1.0, n=0)]}, "its n is 0"),
        ({"rows": [dataclasses.replace(BENCHMARK, dtype=None)]}, "lacks dtype"),
        ({"rows": [dataclasses.replace(BENCHMARK, checkpoint=None, other=None)]}, "lacks other, checkpoint"),
        ({"name": "generation/table2"}, "belongs in a file"),
    ],
)
def test_incomplete_results_are_refused(tmp_path, changes, says):
    path = tmp_path / "generation" / "table1.json"
    with pytest.raises(LexergyError, match=says):
        write_result(path, _result(**changes))
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda value: value.pop("held"), "lacks the field 'held'"),
        (lambda value: value.update(seed=None), "seed should be int; received NoneType"),
        (lambda value: value["rows"][0].update(vlaue=1), "Did you mean 'value'"),
        (lambda value: value.pop("commit"), "does not say its commit"),
        (
            lambda value: value["rows"][0].update(value="27"),
            r"rows\[0\].value should be float \| int; received str",
        ),
    ],
)
def test_a_file_that_says_less_is_refused_by_name(tmp_path, change, says):
    path = tmp_path / "generation" / "table1.json"
    write_result(path, _result())
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    with pytest.raises(LexergyError, match=says) as caught:
        read_result(path)
    assert "table1.json" in str(caught.value)


def test_the_table_for_the_docs(tmp_path):
    assert "No result" in results_table(tmp_path)
    write_result(tmp_path / "generation" / "table1.json", _result(held=False))
    write_result(tmp_path / "a" / "scoring.json", _result(name="a/scoring", rows=[BENCHMARK]))
    text = results_table(tmp_path)
    assert text.index("## a/scoring") < text.index("## generation/table1")
    assert text.count("**The claim did not hold.**") == 1
    assert "plain \\| loop" in text
    assert "| system | metric | value | low | high | n | paper |" in text
    assert "| joint | perplexity\\_upper | 27.50 | 27.00 | 28.00 | 160 | 12.16 |" in text
    assert "| base | perplexity | 28.50 |  |  |  |  |" in text
