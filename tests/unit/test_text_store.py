"""Stored windows and shards: the same back, resumed to the same, and never read when broken."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from lexergy.core.errors import LexergyError
from lexergy.text.shards import (
    ShardReader,
    ShardWriter,
    pack_rows,
    pack_texts,
    unpack_rows,
    unpack_texts,
)
from lexergy.text.store import read_windows, write_windows
from lexergy.text.windows import Window

META = {"space": "fixed", "prefix": 2}
WINDOWS = [Window(list(range(i % 3)), [i, i + 1][: 1 + i % 2], f"autor é{i}") for i in range(25)]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_windows_come_back_as_they_were(tmp_path: Path) -> None:
    stored = write_windows(tmp_path / "w", iter(WINDOWS), META, shard=10)
    assert list(stored) == WINDOWS
    assert len(stored) == 25
    assert stored.meta == {**META, "shard": 10}
    assert list(read_windows(tmp_path / "w")) == list(stored)
    assert sorted(content(tmp_path / "w")) == [
        "manifest.json",
        *(f"shard-0000{i}.safetensors" for i in range(3)),
    ]


@pytest.mark.parametrize("stop", [0, 5, 10, 24])
def test_stopped_and_resumed_equals_straight_through(tmp_path: Path, stop: int) -> None:
    write_windows(tmp_path / "straight", WINDOWS, META, shard=10)

    def interrupted() -> Iterator[Window]:
        yield from WINDOWS[:stop]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_windows(tmp_path / "w", interrupted(), META, shard=10)
    assert not (tmp_path / "w").exists() or len(ShardReader(tmp_path / "w", partial=True)) == stop // 10
    write_windows(tmp_path / "w", WINDOWS, META, shard=10)
    assert content(tmp_path / "w") == content(tmp_path / "straight")


def test_a_finished_set_is_not_made_again(tmp_path: Path) -> None:
    def untouched() -> Iterator[Window]:
        raise AssertionError("asked for windows that are there")
        yield

    write_windows(tmp_path / "w", WINDOWS, META)
    assert list(write_windows(tmp_path / "w", untouched(), META)) == WINDOWS


def test_a_broken_shard_is_named_and_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    write_windows(folder, WINDOWS, META, shard=10)
    whole = content(folder)
    broken = folder / "shard-00001.safetensors"
    broken.write_bytes(whole[broken.name][:-7])
    with pytest.raises(LexergyError, match=r"shard-00001\.safetensors is not what was written"):
        list(read_windows(folder))
    broken.unlink()
    with pytest.raises(LexergyError, match=r"shard-00001\.safetensors is missing"):
        list(read_windows(folder))
    assert ShardWriter(folder, {**META, "shard": 10}).done == 1
    write_windows(folder, WINDOWS, META, shard=10)
    assert content(folder) == whole


def test_another_set_is_never_mixed_in(tmp_path: Path) -> None:
    write_windows(tmp_path / "w", WINDOWS, META)
    with pytest.raises(LexergyError, match=r"made from something else \(prefix: 2 there, 3 here"):
        write_windows(tmp_path / "w", WINDOWS, {**META, "prefix": 3})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    with pytest.raises(LexergyError, match="not a set of shards"):
        write_windows(tmp_path / "other", WINDOWS, META)
    assert content(tmp_path / "other") == {"thesis.tex": b"mine"}


def test_a_corpus_that_shrank_is_noticed(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "w", {**META, "shard": 10})
    writer.write(0, {"x": torch.zeros(1)}, rows=10)
    with pytest.raises(LexergyError, match="already holds 10 windows, but the corpus now gives only 4"):
        write_windows(tmp_path / "w", WINDOWS[:4], META, shard=10)


def test_an_unfinished_set_is_refused_unless_asked_for(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "s", {"of": "mined"})
    tensors = {"log_q": torch.tensor([-1.5, -2.5], dtype=torch.float64), **pack_rows("ids", [[1], [2, 3]])}
    writer.write(0, tensors, rows=2, extra={"prompts": 1})
    with pytest.raises(LexergyError, match="unfinished: 1 shards, 2 rows"):
        ShardReader(tmp_path / "s")
    reader = ShardReader(tmp_path / "s", partial=True)
    assert (reader.rows, reader.rows_of(0), reader.extra(0)) == (2, 2, {"prompts": 1})
    assert torch.equal(reader.read(0)["log_q"], tensors["log_q"])
    with pytest.raises(LexergyError, match="number 1; received 2"):
        writer.write(2, tensors, rows=2)
    writer.finish()
    with pytest.raises(LexergyError, match="is finished"):
        writer.write(1, tensors, rows=2)
    assert [sorted(shard) for shard in ShardReader(tmp_path / "s")] == [["ids", "ids.starts", "log_q"]]


def test_what_a_kill_leaves_behind_is_swept_up(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "shard-00000.safetensors").write_bytes(b"whole, but the manifest was never written")
    write_windows(folder, WINDOWS[:9], META, shard=10)
    (folder / ".shard-00001.safetensors.1234.part").write_bytes(b"half")
    (folder / "shard-00001.safetensors").write_bytes(b"written before its line in the manifest")
    assert ShardWriter(folder, {**META, "shard": 10}).done == 1
    assert sorted(content(folder)) == ["manifest.json", "shard-00000.safetensors"]
    assert list(read_windows(folder)) == WINDOWS[:9]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    writer = ShardWriter(tmp_path / "s", {})
    writer.write(0, {"x": torch.zeros(2)}, rows=2)
    before = content(tmp_path / "s")
    with monkeypatch.context() as patch:
        patch.setattr("lexergy.core.files.save_file", full)
        with pytest.raises(LexergyError, match="No space left on device"):
            writer.write(1, {"x": torch.zeros(2)}, rows=2)
    assert content(tmp_path / "s") == before
    assert ShardWriter(tmp_path / "s", {}).done == 1


def test_a_folder_that_is_no_set_says_so(tmp_path: Path) -> None:
    with pytest.raises(LexergyError, match=r"there is no manifest\.json"):
        read_windows(tmp_path)
    (tmp_path / "manifest.json").write_text('{"complete": tr')
    with pytest.raises(LexergyError, match="not valid JSON"):
        read_windows(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(LexergyError, match="not the manifest"):
        read_windows(tmp_path)
    manifest = {"format": 9, "complete": True, "rows": 0, "meta": {}, "shards": []}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(LexergyError, match="written in format 9"):
        read_windows(tmp_path)


def test_ragged_rows_and_texts_come_back() -> None:
    rows = [[], [1, 2], [], [70_000], []]
    assert unpack_rows(pack_rows("a", rows), "a") == rows
    assert unpack_rows(pack_rows("a", []), "a") == []
    texts = ["", "é☕\n", "", "x"]
    assert unpack_texts(pack_texts("t", texts), "t") == texts
    assert unpack_texts(pack_texts("t", ["", ""]), "t") == ["", ""]
