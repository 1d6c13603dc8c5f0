"""Parallel text: two files or two columns, empty sides counted, a lost line noticed."""

from pathlib import Path

import pytest

from lexergy.core.errors import LexergyError
from lexergy.text.parallel import Pair, read_parallel


def test_two_files_are_paired_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("eins\n\nzwei \n&quot;drei&quot;\n")
    (tmp_path / "a.en").write_text("one\nnothing\ntwo\n&apos;three\n")
    found = read_parallel(tmp_path / "a.de", tmp_path / "a.en")
    assert list(found)[:2] == [Pair("eins", "one"), Pair("zwei", "two")]
    assert (len(found), found.skipped) == (3, 1)
    assert found.pairs[2].source == "&quot;drei&quot;"
    assert read_parallel(tmp_path / "a.de", tmp_path / "a.en", unescape=True).pairs[2] == Pair('"drei"', "'three")


@pytest.mark.parametrize(("de", "en", "counts"), [(3, 2, "3 lines.*has 2"), (1, 4, "1 lines.*has 4")])
def test_a_lost_line_is_noticed(tmp_path: Path, de: int, en: int, counts: str) -> None:
    (tmp_path / "a.de").write_text("x\n" * de)
    (tmp_path / "a.en").write_text("y\n" * en)
    with pytest.raises(LexergyError, match=counts):
        read_parallel(tmp_path / "a.de", tmp_path / "a.en")


def test_columns_by_number_and_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('one "\tun\tCC\n\ttrois\tCC\n\n')
    assert read_parallel(path).pairs == (Pair('one "', "un"),)
    assert read_parallel(path).skipped == 2
    assert read_parallel(path, columns=(2, 1)).pairs == (Pair("CC", "un"), Pair("CC", "trois"))
    path.write_text("en\tid\tfr\none\t1\tun\n")
    assert read_parallel(path, columns=("fr", "en")).pairs == (Pair("un", "one"),)
    with pytest.raises(LexergyError, match="no column 'de'; its columns: en, id, fr"):
        read_parallel(path, columns=("de", "en"))
    with pytest.raises(LexergyError, match="line 1 has 3 columns; number 3 was asked for"):
        read_parallel(path, columns=(0, 3))


def test_files_without_a_pair_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("\tonly one side\n")
    with pytest.raises(LexergyError, match=r"no pair of texts \(1 with an empty side"):
        read_parallel(tmp_path / "a.tsv")
    with pytest.raises(LexergyError, match="There is no file"):
        read_parallel(tmp_path / "a.tsv", tmp_path / "absent")
