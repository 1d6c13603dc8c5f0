"""A corpus parted on disk: each document once, in the part of its group; nothing half-written."""

from pathlib import Path

import pytest

from lexergy.core import files
from lexergy.core.errors import LexergyError
from lexergy.text import parted
from lexergy.text.corpus import read_corpus
from lexergy.text.parted import divide, part_file
from lexergy.text.split import in_part

PARTS = {"lm": 0.5, "energy": 0.3, "test": 0.2, "never": 0.0}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "corpus.txt"
    texts = [f"text number {i}\nof “these” \\u0041 \t words {i * i}" for i in range(50)]
    file.write_text("\n\n".join([*texts, texts[3], texts[7]]), encoding="utf-8")
    return file


def test_every_part_is_what_the_split_says(corpus: Path, tmp_path: Path) -> None:
    divide(corpus, PARTS, tmp_path / "out")
    unique = list({document.text: document for document in read_corpus(corpus)}.values())
    total = 0
    for part in ("lm", "energy", "test"):
        found = list(read_corpus(part_file(tmp_path / "out", part)))
        assert [(d.text, d.group) for d in found] == [(d.text, d.group) for d in in_part(unique, part, PARTS)]
        total += len(found)
    assert total == 50
    counts = files.read_json(tmp_path / "out" / "counts.json")
    assert (counts["documents"], counts["near_duplicates_dropped"], sum(counts["parts"].values())) == (50, 2, 50)


def test_an_empty_or_unknown_part_is_said(corpus: Path, tmp_path: Path) -> None:
    divide(corpus, PARTS, tmp_path / "out")
    with pytest.raises(LexergyError, match="No document of the corpus fell into the part 'never'"):
        part_file(tmp_path / "out", "never")
    with pytest.raises(LexergyError, match=r"Unknown part 'tets'. Did you mean 'test'"):
        part_file(tmp_path / "out", "tets")


def test_stopped_halfway_nothing_is_left(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))
    part_of = parted.part_of

    def failing(*given: object) -> str:
        if next(calls) == 20:
            raise KeyboardInterrupt
        return part_of(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(parted, "part_of", failing)
    with pytest.raises(KeyboardInterrupt):
        divide(corpus, PARTS, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.txt"]
