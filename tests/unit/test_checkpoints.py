"""Checkpoints are whole or absent, say what is wrong with them, and hold tied weights once."""

import errno
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from lexergy.core import files, random
from lexergy.core.errors import LexergyError
from lexergy.training import checkpoints
from lexergy.training.history import History
from lexergy.training.optimiser import adamw
from lexergy.training.settings import Settings


class Tied(nn.Module):
    """A language model's ends: one matrix in, the same out."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, width)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.embedding(ids)))


def trained(seed: int = 0, steps: int = 2) -> tuple[Tied, torch.optim.Optimizer]:
    with random.seeded(seed):
        model = Tied()
    optimiser = adamw(model, Settings(steps=1, learning_rate=0.1))
    for _ in range(steps):
        optimiser.zero_grad()
        model(torch.arange(7)).square().mean().backward()
        optimiser.step()
    return model, optimiser


def test_weights_buffers_and_moments_come_back_to_the_bit(tmp_path: Path) -> None:
    model, optimiser = trained()
    checkpoints.save(tmp_path, model, optimiser, History(step=2), {"a": 1})
    other, moments = trained(seed=1, steps=0)
    found = checkpoints.latest(tmp_path)
    assert found is not None
    checkpoints.load_model(found, other)
    checkpoints.load_optimiser(found, other, moments)
    assert found.history == History(step=2)
    assert found.identity == {"a": 1}
    for mine, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    assert other.head.weight is other.embedding.weight
    assert moments.param_groups[0]["lr"] == 0.1
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        a, b = optimiser.state[mine], moments.state[theirs]
        assert a.keys() == b.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_tied_weights_are_written_once_and_nothing_is_pickled(tmp_path: Path) -> None:
    place = checkpoints.save(tmp_path, *trained(), History(step=2), {})
    assert sorted(file.name for file in place.iterdir()) == [
        "model.safetensors",
        "optimiser.safetensors",
        "state.json",
    ]
    names = files.read_tensors(place / "model.safetensors").keys()
    assert "embedding.weight" in names
    assert "head.weight" not in names
    assert "norm.running_mean" in names


def test_views_of_one_memory_can_be_written(tmp_path: Path) -> None:
    model = nn.Module()
    whole = torch.arange(6.0)
    model.register_buffer("left", whole[:4])
    model.register_buffer("right", whole[2:])
    model.weight = nn.Parameter(torch.ones(2, 2))
    place = checkpoints.save(tmp_path, model, adamw(model, Settings(1, 0.1)), History(step=1), {})
    assert files.read_tensors(place / "model.safetensors")["right"].tolist() == [2, 3, 4, 5]


def test_the_latest_whole_one_is_found(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path / "nowhere") is None
    pair = trained()
    for step in (9, 100, 1_000_000):
        checkpoints.save(tmp_path, *pair, History(step=step), {})
    (tmp_path / "step-1000000" / "state.json").unlink()
    (tmp_path / ".step-2000000.1234.part").mkdir()
    (tmp_path / "step-notes").mkdir()
    found = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.folder.name == "step-000100"


def test_prune_keeps_the_last_and_the_best_and_sweeps_up(tmp_path: Path) -> None:
    pair = trained()
    for step in (1, 2, 3, 4):
        checkpoints.save(tmp_path, *pair, History(step=step), {})
    (tmp_path / ".step-000005.1234.part").mkdir()
    checkpoints.prune(tmp_path, keep=2, also=[1])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000001", "step-000003", "step-000004"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors"])
def test_a_truncated_file_is_named(tmp_path: Path, name: str) -> None:
    model, optimiser = trained()
    place = checkpoints.save(tmp_path, model, optimiser, History(step=2), {})
    file = place / name
    file.write_bytes(file.read_bytes()[:-10])
    found = checkpoints.read(place)

    def load() -> None:
        checkpoints.load_model(found, model)
        checkpoints.load_optimiser(found, model, optimiser)

    with pytest.raises(LexergyError, match=rf"{name} is not what was written.*Delete the folder"):
        load()


def test_a_broken_state_is_named(tmp_path: Path) -> None:
    place = checkpoints.save(tmp_path, *trained(), History(step=2), {})
    whole = (place / "state.json").read_text()
    (place / "state.json").write_text(whole[:-20])
    with pytest.raises(LexergyError, match=r"state\.json is not valid JSON"):
        checkpoints.latest(tmp_path)
    (place / "state.json").write_text('{"history": {"steps": 1}}')
    with pytest.raises(LexergyError, match=r"state\.json is not the state of a training run"):
        checkpoints.latest(tmp_path)


def test_another_shape_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    found = checkpoints.read(checkpoints.save(tmp_path, *trained(), History(step=2), {}))
    wide = Tied(width=6)
    before = {name: tensor.clone() for name, tensor in wide.state_dict().items()}
    with pytest.raises(LexergyError, match=r"model\.safetensors is of another shape: embedding\.weight is \[7, 4\]"):
        checkpoints.load_model(found, wide)
    assert all(torch.equal(before[name], tensor) for name, tensor in wide.state_dict().items())
    with pytest.raises(LexergyError, match="is of another model"):
        checkpoints.load_model(found, nn.Linear(2, 2))


def test_changed_settings_are_named(tmp_path: Path) -> None:
    found = checkpoints.read(checkpoints.save(tmp_path, *trained(), History(step=2), {"a": 1, "b": [2]}))
    checkpoints.require_same(found, {"a": 1, "b": [2]})
    with pytest.raises(LexergyError, match=r"other settings: a was 1 and is now 3; c was None and is now 4\."):
        checkpoints.require_same(found, {"a": 3, "b": [2], "c": 4})


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimiser = trained()
    checkpoints.save(tmp_path, model, optimiser, History(step=2), {})
    write = files.save_file

    def full(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        write(tensors, path, metadata=metadata)
        if "exp_avg/norm.weight" in tensors:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(LexergyError, match="No space left on device"):
        checkpoints.save(tmp_path, model, optimiser, History(step=3), {})
    assert [place.name for place in tmp_path.iterdir()] == ["step-000002"]
    found = checkpoints.latest(tmp_path)
    assert found is not None
    checkpoints.load_model(found, model)


def test_a_missing_file_makes_a_checkpoint_incomplete(tmp_path: Path) -> None:
    pair = trained()
    checkpoints.save(tmp_path, *pair, History(step=1), {})
    place = checkpoints.save(tmp_path, *pair, History(step=2), {})
    (place / "optimiser.safetensors").unlink()
    found = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.history.step == 1
    shutil.rmtree(tmp_path / "step-000001")
    assert checkpoints.latest(tmp_path) is None
