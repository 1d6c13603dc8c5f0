"""Corpora and lines: every way of holding documents; a file that cannot be read says where and why."""

import gzip
import io
import json
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from lexergy.core.errors import LexergyError
from lexergy.text.corpus import Line, read_corpus, read_lines


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_text_file_holds_documents_between_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeff\nOne é\r\nline two\r\n\r\n \n\nThree".encode())
    documents = list(read_corpus(path))
    assert [one.text for one in documents] == ["One é\nline two", "Three"]
    assert [one.name for one in documents] == ["a.txt:2", "a.txt:7"]
    assert len({one.group for one in documents}) == 2


def test_a_document_keeps_its_group_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\n\nsame text\n")
    (tmp_path / "b.jsonl").write_text(jsonl({"text": "same text"}))
    assert [one.group for one in read_corpus(tmp_path / "b.jsonl")] == [list(read_corpus(tmp_path / "a.txt"))[1].group]


def test_rows_name_their_group(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [
        {"text": "x", "author": "A"},
        {"text": "y", "group": 7, "author": "A"},
        {"text": " "},
        {"text": "z"},
    ]
    path.write_text(jsonl(*rows) + "\n")
    groups = [one.group for one in read_corpus(path)]
    assert groups[:2] == ["A", "7"]
    assert len(groups) == 3
    path.write_text(jsonl({"body": "x"}))
    assert [one.text for one in read_corpus(path, column="body")] == ["x"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_packed_files_are_read_as_they_are(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    data = pack(jsonl({"text": "one é"}, {"text": "two"}).encode() * 2000)
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(data)
    assert len(list(read_corpus(path))) == 4000
    path.write_bytes(data[:-20])
    with pytest.raises(LexergyError, match=f"not a whole {suffix} file"):
        list(read_corpus(path))


def test_a_folder_holds_one_document_a_file(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("p1\n\np2\n")
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "c.jsonl").write_text(jsonl({"text": "r1"}, {"text": "r2", "group": "g"}))
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "notes.md").write_text("no")
    documents = list(read_corpus(tmp_path))
    assert [one.text for one in documents] == ["one", "p1\n\np2", "r1", "r2"]
    assert [one.group for one in documents][:2] == ["a.txt", "b/two.txt"]
    assert documents[3].group == "g"


def test_a_limit_stops_after_the_document_that_reaches_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two\n\nthree\n\nfour five\n\nsix")
    assert [one.text for one in read_corpus(tmp_path / "a.txt", limit_words=3)] == ["one two", "three"]


def test_a_line_of_ten_megabytes_is_a_document(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"word " * 2_000_000)
    (document,) = read_corpus(path)
    assert len(document.text) == 10_000_000
    assert [len(line.text) for line in read_lines(path)] == [10_000_000]


def test_a_file_is_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(("word " * 100 + "\n\n") * 8_000)
    tracemalloc.start()
    count = sum(1 for _ in read_corpus(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 8_000
    assert peak < path.stat().st_size / 20


BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("a.txt", b"", "holds no text"),
    "blank": ("a.txt", b"\n \n\n", "holds no text"),
    "latin": ("a.txt", b"good\nna\xefve\n", r"not UTF-8 in line 2: byte 7 of the file is 0xef"),
    "marked": ("a.txt", b"\xef\xbb\xbfa\xff", r"not UTF-8 in line 1: byte 4 of the file is 0xff"),
    "utf-16": ("a.txt", "ab\n".encode("utf-16-le"), r"NUL byte in line 1 \(byte 1 of the file\)"),
    "NUL": ("a.jsonl", b'{"text": "a"}\n\x00', r"NUL byte in line 2 \(byte 14"),
    "wrong column": (
        "a.jsonl",
        b'{"txt": "a", "n": 1}',
        r"line 1 has no column 'text'; its columns: 'txt', 'n'.*'txt'",
    ),
    "number": ("a.jsonl", b'{"text": 3}', "column 'text' must be a string; received int"),
    "list": ("a.jsonl", b'["a"]', "not an object"),
    "no JSON": ("a.jsonl", b'{"text": "a"}\n{"text": ', "line 2 is not JSON"),
    "surrogate": ("a.jsonl", rb'{"text": "a\ud800"}', "half a surrogate pair at character 1"),
    "escaped NUL": ("a.jsonl", rb'{"text": "a\u0000"}', "NUL character"),
    "group": ("a.jsonl", b'{"text": "a", "group": ["x"]}', "'group' must be a string"),
    "table": ("a.csv", b"text\na", r"is a \.csv file"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, case: str) -> None:
    name, data, message = BAD[case]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LexergyError, match=message) as caught:
        list(read_corpus(tmp_path / name))
    assert name in str(caught.value)


def test_a_folder_without_text_says_so(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with pytest.raises(LexergyError, match=r"holds no text: it has no \.txt or \.jsonl file"):
        list(read_corpus(tmp_path))
    (tmp_path / "a.txt").write_bytes(b"\n")
    with pytest.raises(LexergyError, match=r"1 \.txt or \.jsonl files, all of them empty"):
        list(read_corpus(tmp_path))
    with pytest.raises(LexergyError, match=r'no file or folder .*"?docstrings'):
        read_corpus(tmp_path / "absent.txt")


def test_lines_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n\ntwo \n")
    assert list(read_lines(path)) == [Line("one", ""), Line("", ""), Line("two ", "")]
    rows = tmp_path / "a.jsonl"
    rows.write_text(jsonl({"text": "b", "context": "a "}, {"text": "c", "prompt": "p", "context": None}))
    assert list(read_lines(rows)) == [Line("b", "a "), Line("c", "")]
    assert [line.text for line in read_lines(rows, field="prompt")] == ["b", "p"]
    path.write_text("")
    with pytest.raises(LexergyError, match="is empty"):
        list(read_lines(path))
    with pytest.raises(LexergyError, match="is a folder"):
        list(read_lines(tmp_path))
    with pytest.raises(LexergyError, match="There is no file"):
        list(read_lines(tmp_path / "absent.txt"))


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"plain\n{x\n", ["plain", "{x"]), (b'{"text": "a"}\n{"text": "b"}\n', ["a", "b"])],
)
def test_standard_input_is_rows_or_lines(monkeypatch: pytest.MonkeyPatch, data: bytes, expected: list[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert [line.text for line in read_lines("-")] == expected
