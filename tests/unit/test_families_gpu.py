"""The engine, proposals and energies on a GPU: what they compute on a CPU, with memory that really runs out."""

import copy
import dataclasses

import pytest
import torch
from torch import Tensor

from families import CAUSAL, ENCODERS, TEXTS, causal, encoder
from lexergy.core.random import Keyed, seeded
from lexergy.core.types import Tokens
from lexergy.energies.bag import Bag
from lexergy.energies.transformer import Transformer
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import Loaded
from lexergy.engine.score import score_rows
from lexergy.engine.vocabulary import weighted_nll
from lexergy.proposals.causal import Causal

pytestmark = pytest.mark.gpu

CLOSE = {"rtol": 0, "atol": 1e-3}
"""float32, other kernels, logits of a few tens."""


def moved(loaded: Loaded, dtype: torch.dtype = torch.float32) -> Loaded:
    """The same model on the GPU."""
    where = dataclasses.replace(loaded.plan, device="cuda", dtype=str(dtype).removeprefix("torch."))
    return dataclasses.replace(loaded, model=copy.deepcopy(loaded.model).to("cuda", dtype), plan=where)


@pytest.mark.parametrize("family", CAUSAL)
def test_a_gpu_says_and_draws_what_the_cpu_does(family: str) -> None:
    loaded = causal(family, eos=tuple(range(0, 290, 20)))
    here, there = Causal(loaded), Causal(moved(loaded))
    assert (there.lm.head is None) == (here.lm.head is None)
    contexts = ["the council ", "", "a"] * 2
    assert there.log_prob(TEXTS, contexts, eos=True) == pytest.approx(
        here.log_prob(TEXTS, contexts, eos=True), abs=1e-3
    )
    draws = there.sample(["the council", "a"], n=8, max_new_tokens=8, seed=3, top_k=20)
    again = there.sample("a", n=8, max_new_tokens=8, seed=3, top_k=20)
    assert again.texts == draws[1].texts
    for one, other in zip(
        draws, here.sample(["the council", "a"], n=8, max_new_tokens=8, seed=3, top_k=20), strict=True
    ):
        assert one.tokens.ids.device.type == one.log_q.device.type == "cpu"
        torch.testing.assert_close(one.log_p, there.log_prob(one), **CLOSE)
        torch.testing.assert_close(one.log_p, here.log_prob(one), **CLOSE)
        assert sum(a == b for a, b in zip(one.texts, other.texts, strict=True)) >= 7  # a draw may fall on a border
    half = Causal(moved(loaded, torch.bfloat16)).sample("a", n=4, max_new_tokens=8, seed=3)
    assert half.log_p is not None
    assert half.log_p.isfinite().all()


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_energies_on_a_gpu_are_those_of_the_cpu(family: str, pooling: str) -> None:
    special = "bos" if family.startswith("ours") else "all"
    made = []
    for loaded in (encoder(family), moved(encoder(family))):
        one = Transformer(loaded, pooling=pooling, special=special)  # type: ignore[arg-type]
        with seeded(0, "head"):
            weight = torch.randn(one.head.weight.shape)
        one.head.weight.data.copy_(weight)
        made.append(one)
    assert made[1].head.weight.is_cuda
    wanted = made[0].score([*TEXTS, ""], "so ")
    assert made[1].score([*TEXTS, ""], "so ") == pytest.approx(wanted, abs=1e-3)
    assert [made[1].score([text], "so ")[0] for text in TEXTS] == pytest.approx(wanted[:-1], abs=1e-3)


@pytest.mark.parametrize("amp", [False, True])
def test_the_vocabulary_in_chunks_has_the_cpus_gradients(amp: bool) -> None:
    rng = Keyed.of(0, "gpu vocabulary")
    h, w = rng.at("h").gumbel(640).reshape(40, 16).float(), rng.at("w").gumbel(1600).reshape(100, 16).float()
    targets, c = rng.at("t").integers(100, 40)[0], rng.at("c").uniform(40)[0].float()
    losses, gradients = [], []
    for device in ("cpu", "cuda"):
        inputs = [x.detach().to(device, copy=True).requires_grad_() for x in (h, w)]
        with torch.autocast(device, torch.bfloat16, enabled=amp and device == "cuda"):
            loss = weighted_nll(inputs[0], inputs[1], targets.to(device), c.to(device))
        loss.backward()
        losses.append(float(loss.detach()))
        gradients.append([x.grad.cpu() for x in inputs])  # type: ignore[union-attr]
    assert losses[1] == pytest.approx(losses[0], rel=0.01 if amp else 1e-5)
    for a, b in zip(*gradients, strict=True):
        assert float((a - b).norm()) <= (0.03 if amp else 1e-4) * float(a.norm())


def test_memory_that_runs_out_is_survived() -> None:
    each = torch.cuda.get_device_properties(0).total_memory // 8

    def greedy(tokens: Tokens) -> Tensor:
        held = torch.empty(tokens.ids.numel() * each, dtype=torch.uint8, device="cuda")
        return tokens.ids.sum(1) + 0 * held[:1]

    rows = [([i, i + 1], 0, 2) for i in range(9)]
    assert score_rows(greedy, rows, 1000, "cuda").tolist() == [2.0 * i + 1 for i in range(9)]


def test_a_network_that_moves_is_read_where_it_is() -> None:
    lm = LanguageModel(dataclasses.replace(causal("llama"), model=copy.deepcopy(causal("llama").model)))
    tokens = Tokens.of([[1, 2, 3], [4, 5]], [1, 1])
    before = lm.log_prob(tokens)
    lm.model.to("cuda")
    assert lm.device.type == "cuda"
    torch.testing.assert_close(lm.log_prob(tokens), before, **CLOSE)


def test_a_sum_of_parts_on_two_devices() -> None:
    loaded = encoder("bert")
    on_gpu, own = Transformer(moved(loaded)), Bag(loaded.tokenizer)
    with seeded(0, "parts"):
        torch.nn.init.normal_(on_gpu.head.weight)
        torch.nn.init.normal_(own.weight)
    both = (on_gpu + own).score(TEXTS)
    apart = zip(on_gpu.score(TEXTS), own.score(TEXTS), strict=True)
    assert both == pytest.approx([a + b for a, b in apart], abs=1e-3)
