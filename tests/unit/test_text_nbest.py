"""N-best lists: four formats, told by their content, all component scores kept."""

import gzip
import json
from pathlib import Path

import pytest

from lexergy.core.errors import LexergyError
from lexergy.text.nbest import Hypothesis, NBest, Utterance, read_nbest, write_nbest

TWO = NBest(
    (
        Utterance("u1", "the cat", (Hypothesis("the cat", {"score": -1.5}), Hypothesis("a cät", {"score": -2.0}))),
        Utterance("u2", None, (Hypothesis("", {"score": 3.0}),)),
    )
)
ROWS = [
    {
        "id": "u1",
        "ref": "the cat",
        "nbest": [{"text": "the cat", "score": -1.5, "err": 0}, {"text": "a cät", "score": -2}],
    },
    {"id": "u2", "hyps": [{"text": "", "scores": {"score": 3}}]},
]
ESPNET = {
    "u1": {
        "ref": "the cat",
        "hyp_2": {"score": -2, "text": "a cät"},
        "hyp_1": {"score": -1.5, "text": "the cat"},
    },
    "u2": {"hyp_1": {"score": 3, "text": ""}},
}
FORMATS = {
    "JSON lines": "".join(json.dumps(row) + "\n" for row in ROWS),
    "JSON list": json.dumps(ROWS),
    "JSON list, indented": json.dumps(ROWS, indent=2),
    "ESPnet": json.dumps(ESPNET),
    "ESPnet, indented": json.dumps(ESPNET, indent=2),
}


@pytest.mark.parametrize("form", FORMATS)
def test_json_in_any_form_gives_the_same_lists(tmp_path: Path, form: str) -> None:
    path = tmp_path / "lists"  # no suffix: the content tells
    path.write_text(FORMATS[form])
    assert read_nbest(path) == TWO


def test_order_of_espnet_is_by_number(tmp_path: Path) -> None:
    hypotheses = {f"hyp_{i}": {"score": -i, "text": str(i)} for i in (10, 2, 1)}
    (tmp_path / "a.json").write_text(json.dumps({"u": hypotheses}))
    assert [one.text for one in read_nbest(tmp_path / "a.json").utterances[0].hypotheses] == ["1", "2", "10"]


def test_tables_with_and_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("u1\t-1.5\tthe cat\nu2\t3\t\nu1\t-2\ta cät\n")
    bare = read_nbest(path)
    assert [one.id for one in bare] == ["u1", "u2"]
    assert bare.utterances[0].hypotheses == TWO.utterances[0].hypotheses
    path.write_text('utt\tam\tlm\ttext\treference\nu\t-1\t-2e1\ttwo "words\tref\nu\t-3\t-4\tx\tref\n')
    assert read_nbest(path).utterances == (
        Utterance(
            "u",
            "ref",
            (Hypothesis('two "words', {"am": -1.0, "lm": -20.0}), Hypothesis("x", {"am": -3.0, "lm": -4.0})),
        ),
    )


def test_lines_of_fairseq(tmp_path: Path) -> None:
    path = tmp_path / "generate.txt"
    head = "2026-01-01 | INFO | loading\nS-10\tdie Kat@@ ze\nT-10\tthe cat\nH-10\t-0.5\tthe c@@ at\n"
    path.write_text(head + "P-10\t-0.1 -0.2\nH-10\t-0.7\ta c@@ at\nS-2\tja\nH-2\t-1\tyes\nGenerate test: BLEU\n")
    lists = read_nbest(path)
    assert [one.id for one in lists] == ["2", "10"]
    assert lists.utterances[1].reference == "the cat"
    assert lists.utterances[1].source == "die Kat@@ ze"
    assert [one.text for one in lists.utterances[1].hypotheses] == ["the c@@ at", "a c@@ at"]
    path.write_text(head + "D-10\t-0.5\tthe cat\n")
    assert read_nbest(path).utterances[0].hypotheses == (Hypothesis("the cat", {"score": -0.5}),)


def test_component_scores_are_kept_and_other_numbers_are_not(tmp_path: Path) -> None:
    row = {"id": 7, "nbest": [{"text": "a", "score": 1, "lm_score": 2, "scores": {"ctc": 3}, "err": 4}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (utterance,) = read_nbest(tmp_path / "a.jsonl")
    assert utterance.id == "7"
    assert utterance.hypotheses[0].scores == {"score": 1.0, "lm_score": 2.0, "ctc": 3.0}


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    lists = NBest((*TWO.utterances, Utterance("u3", "", (Hypothesis("x\ty", {"am": 0.1, "lm": 1e-9}),), "Quelle")))
    write_nbest(tmp_path / name, lists)
    assert read_nbest(tmp_path / name) == lists


def test_ids_may_repeat_where_the_format_can_hold_them(tmp_path: Path) -> None:
    twice = NBest((TWO.utterances[0], TWO.utterances[0]))
    write_nbest(tmp_path / "a.jsonl", twice)
    assert read_nbest(tmp_path / "a.jsonl") == twice
    with pytest.raises(LexergyError, match="share an id"):
        write_nbest(tmp_path / "a.json", twice)
    with pytest.raises(LexergyError, match=r"as \.jsonl or \.json; received 'a\.tsv'"):
        write_nbest(tmp_path / "a.tsv", twice)


def test_packed_lists(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(FORMATS["JSON list"].encode()))
    assert read_nbest(tmp_path / "a.json.gz") == TWO


BAD = {
    "": "is empty",
    "just some text\nmore": "no n-best list that is known",
    '[{"id": "u", "nbest": [{"text": "a"': "may have been cut off",
    '{"id": "u", "nbest": [{"text": "a", "score": 1}]}\n{"id": ': "line 2 is not JSON",
    '{"id": "u", "nbest": [{"text": "a"}]}': 'hypothesis 1 has no "score"',
    '{"id": "u", "nbest": [{"score": 1}]}': "hypothesis 1 needs a \"text\"; received 'score'",
    '{"id": "u", "nbest": [{"text": "a", "score": NaN}]}': "is nan: a score is a finite number",
    '{"id": "u", "nbest": [{"text": "a", "score": "x"}]}': "not a number: received 'x'",
    '{"id": "u", "nbest": [{"text": "a", "scores": [1]}]}': '"scores" must be an object',
    '{"id": "u", "nbest": []}': "has no hypothesis",
    '{"nbest": [{"text": "a", "score": 1}]}': "has no id",
    '{"u": {"ref": "a"}}': "utterance 'u' has no hypothesis",
    '{"u": 3}': "no list of hypotheses",
    '[{"id": "u", "list": []}]': "received 'id', 'list'",
    "[]": "holds no utterance",
    "u\t1\t2\ttext": "4 columns and no header",
    "u\tx\ttext here\n": "column 'score' is not a number",
    "id\tscore\ttext\nu\t1\n": "line 2 has 2 columns; 3 are expected: id, score, text",
    "id\ttext\nu\ta": "needs the columns id, text and at least one score",
    "S-0\ta\nT-0\tb\n": "no hypothesis",
    "H-0\t-1\n": "H-0, score, text",
}


@pytest.mark.parametrize("data", BAD)
def test_what_is_no_list_says_why(tmp_path: Path, data: str) -> None:
    (tmp_path / "lists").write_text(data)
    with pytest.raises(LexergyError, match=BAD[data]):
        read_nbest(tmp_path / "lists")
