"""Files are whole or absent, whatever happens while they are written."""

import errno
import os
from pathlib import Path

import pytest
import torch

from lexergy.core import files
from lexergy.core.errors import LexergyError


def only(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_takes_its_place_whole(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "a.txt"
    files.write_text(place, "one\n")
    files.write_text(place, "two\n")
    assert place.read_text() == "two\n"
    assert only(place.parent) == ["a.txt"]


def test_an_error_inside_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    place = tmp_path / "a.txt"
    place.write_text("old")

    def interrupted() -> None:
        with files.atomic(place) as draft:
            draft.write_text("half of the new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert place.read_text() == "old"
    assert only(tmp_path) == ["a.txt"]


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_the_users_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "a.txt"
    place.write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(LexergyError, match=r"a\.txt.*No space left.*Nothing half-written"):
        files.write_text(place, "new")
    assert place.read_text() == "old"
    assert only(tmp_path) == ["a.txt"]


def test_a_folder_replaces_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "run"
    for name in ("first", "second"):
        with files.atomic(place) as draft:
            draft.mkdir()
            (draft / name).write_text(name)
    assert only(place) == ["second"]
    assert only(tmp_path) == ["run"]


def test_a_folder_that_cannot_take_its_place_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "old").write_text("old")
    rename = Path.rename

    def refusing(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            full_disk()
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refusing)
    with pytest.raises(LexergyError, match="No space left"), files.atomic(place) as draft:
        draft.mkdir()
    assert only(place) == ["old"]
    assert only(tmp_path) == ["run"]


def test_a_folder_that_a_kill_left_aside_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / "old").write_text("old")
    rename = Path.rename

    class Killed(BaseException):
        pass

    def killed(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(Killed), files.atomic(place) as draft:
        draft.mkdir()
    monkeypatch.undo()
    assert not place.exists()
    with pytest.raises(ZeroDivisionError), files.atomic(place):
        raise ZeroDivisionError
    assert only(place) == ["old"]
    assert only(tmp_path) == ["run"]


def test_an_old_folder_that_was_replaced_goes_and_others_stay(tmp_path: Path) -> None:
    for name in ("run", ".run.1234abcd.old", ".run2.1234abcd.old"):
        (tmp_path / name).mkdir()
    files.write_text(tmp_path / "run" / "a", "a")
    with files.atomic(tmp_path / "run") as draft:
        draft.mkdir()
    assert only(tmp_path) == [".run2.1234abcd.old", "run"]


def test_a_file_that_cannot_be_read_is_not_said_to_be_unwritten(tmp_path: Path) -> None:
    place = tmp_path / "new"
    for absent in (tmp_path / "absent", tmp_path / "elsewhere" / "absent"):
        with pytest.raises(FileNotFoundError), files.atomic(place) as draft:
            draft.write_text(absent.read_text())
    assert only(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(LexergyError, match="Could not write"):
        files.write_text(tmp_path / "file" / "below", "a")
    with pytest.raises(LexergyError, match="Could not write"), files.atomic(place) as draft:
        (draft / "in a folder that was not made").write_text("a")


def test_the_rename_itself_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, (tmp_path / "a").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    files.write_text(tmp_path / "a", "a")
    assert synced == [((tmp_path / "a").stat().st_ino, False), (tmp_path.stat().st_ino, True)]


def test_json_comes_back_and_broken_json_is_named(tmp_path: Path) -> None:
    place = tmp_path / "a.json"
    files.write_json(place, {"b": 1, "a": "é"})
    assert files.read_json(place) == {"b": 1, "a": "é"}
    assert place.read_text(encoding="utf-8").endswith("}\n")
    place.write_text('{"b": 1')
    with pytest.raises(LexergyError, match="not valid JSON"):
        files.read_json(place)
    with pytest.raises(LexergyError, match="There is no file"):
        files.read_json(tmp_path / "absent.json")


def test_tensors_come_back_and_a_cut_file_is_named(tmp_path: Path) -> None:
    place = tmp_path / "a.safetensors"
    files.write_tensors(place, {"x": torch.arange(6).view(2, 3).t(), "y": torch.ones((), requires_grad=True)})
    found = files.read_tensors(place)
    assert found["x"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["y"].item() == 1
    place.write_bytes(place.read_bytes()[:-4])
    with pytest.raises(LexergyError, match=r"a\.safetensors is not a whole"):
        files.read_tensors(place)
    with pytest.raises(LexergyError, match="There is no file"):
        files.read_tensors(tmp_path / "absent.safetensors")


def test_loading_a_state_names_what_does_not_fit(tmp_path: Path) -> None:
    net, source = torch.nn.Linear(2, 1), tmp_path / "head"
    sound = {"weight": torch.ones(1, 2), "bias": torch.ones(1)}
    files.load_state(net, sound, source)
    assert net.weight.tolist() == [[1.0, 1.0]]
    with pytest.raises(LexergyError, match="lacks tensor 'bias'"):
        files.load_state(net, {"weight": torch.ones(1, 2)}, source)
    with pytest.raises(LexergyError, match="unknown tensor 'more'"):
        files.load_state(net, {**sound, "more": torch.ones(1)}, source)
    with pytest.raises(LexergyError, match=r"shape \(1, 3\), but \(1, 2\)"):
        files.load_state(net, {**sound, "weight": torch.zeros(1, 3)}, source)
    assert net.weight.tolist() == [[1.0, 1.0]]


def test_sha256_is_of_the_bytes(tmp_path: Path) -> None:
    place = tmp_path / "a"
    place.write_bytes(b"abc")
    assert files.sha256(place) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
