"""Where states meet the vocabulary: the numbers and gradients of the plain way, a chunk of logits at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lexergy.core.random import Keyed
from lexergy.engine import vocabulary
from lexergy.engine.vocabulary import chunk_rows, token_log_prob, weighted_nll

ROWS, WIDTH, WORDS = 11, 6, 13
CHUNKS = pytest.mark.parametrize("chunk", [1, 4, 11, 50])
BIAS = pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])


@pytest.fixture
def chunked(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """So many rows a chunk."""
    monkeypatch.setitem(vocabulary.CHUNK_ELEMENTS, "cpu", chunk * WORDS)
    assert chunk_rows(WORDS, torch.device("cpu")) == chunk


def problem(dtype: torch.dtype = torch.float64) -> tuple[list[Tensor], Tensor, Tensor]:
    """States, matrix and bias; targets; coefficients of both signs, some zero."""
    rng = Keyed.of(0, "vocabulary")
    shapes = [(ROWS, WIDTH), (WORDS, WIDTH), (WORDS,)]
    made = [rng.at(i).gumbel(torch.Size(s).numel()).reshape(s).to(dtype) for i, s in enumerate(shapes)]
    coefficients = rng.at("c").gumbel(ROWS)[0].to(dtype)
    coefficients[3] = 0
    return made, rng.at("t").integers(WORDS, ROWS)[0], coefficients


def plain(h: Tensor, w: Tensor, b: Tensor | None, targets: Tensor, c: Tensor) -> Tensor:
    """The obvious way: all logits at once."""
    return (c * F.cross_entropy(F.linear(h, w, b), targets, reduction="none")).sum()


@CHUNKS
@BIAS
def test_value_and_gradients_are_those_of_cross_entropy(chunked: None, biased: bool) -> None:
    (h, w, b), targets, c = problem()
    inputs = [x.requires_grad_() for x in ([h, w, b] if biased else [h, w])]
    bias = b if biased else None
    found, wanted = weighted_nll(h, w, targets, c, bias), plain(h, w, bias, targets, c)
    torch.testing.assert_close(found, wanted)
    ours = torch.autograd.grad(3 * found, inputs)
    for a, e in zip(ours, torch.autograd.grad(3 * wanted, inputs), strict=True):
        torch.testing.assert_close(a, e)


@pytest.mark.parametrize("chunk", [4])
@BIAS
def test_gradients_are_finite_differences(chunked: None, biased: bool) -> None:
    (h, w, b), targets, c = problem()
    inputs = [x.requires_grad_() for x in ([h, w, b] if biased else [h, w])]
    assert torch.autograd.gradcheck(lambda h, w, b=None: weighted_nll(h, w, targets, c, b), inputs)


@pytest.mark.parametrize("needed", [(True, False), (False, True), (False, False)])
def test_only_the_gradients_asked_for(needed: tuple[bool, bool]) -> None:
    (h, w, _), targets, c = problem()
    h.requires_grad_(needed[0])
    w.requires_grad_(needed[1])
    loss = weighted_nll(h, w, targets, c)
    torch.testing.assert_close(loss.detach(), plain(h, w, None, targets, c).detach())
    assert loss.requires_grad == any(needed)
    if any(needed):
        loss.backward()
    assert [x.grad is not None for x in (h, w)] == list(needed)


def test_extreme_logits_overflow_nothing() -> None:
    h, w = torch.tensor([[1e4], [-1e4]]), torch.tensor([[1.0], [-1.0], [0.0]])
    h.requires_grad_()
    targets = torch.tensor([0, 0])
    loss = weighted_nll(h, w, targets, torch.ones(2))
    assert float(loss.detach()) == pytest.approx(2e4)
    loss.backward()
    assert h.grad.tolist() == [[0.0], [-2.0]]
    assert token_log_prob(lambda x: x @ w.T, h.detach(), targets, 3).tolist() == [0.0, -2e4]


def test_no_rows_are_no_loss() -> None:
    (_, w, _), _, _ = problem()
    w.requires_grad_()
    h = torch.zeros(0, WIDTH, dtype=torch.float64, requires_grad=True)
    loss = weighted_nll(h, w, torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.float64))
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert not w.grad.any()
    none = token_log_prob(lambda x: x @ w.T, h.detach(), torch.zeros(0, dtype=torch.long), WORDS)
    assert none.shape == (0,)


@pytest.mark.parametrize("chunk", [4, 50])
@pytest.mark.parametrize("how", ["weights", "autocast"])
def test_bf16_is_close(chunked: None, how: str) -> None:
    (h, w, b), targets, c = problem()
    exact = [x.clone().requires_grad_() for x in (h, w, b)]
    wanted = plain(*exact, targets, c)
    wanted.backward()
    dtype = torch.bfloat16 if how == "weights" else torch.float32
    ours = [x.to(dtype).requires_grad_() for x in (h, w, b)]
    theirs = [x.to(dtype).requires_grad_() for x in (h, w, b)]
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        loss = weighted_nll(ours[0], ours[1], targets, c.to(dtype), ours[2])
        their_loss = plain(*theirs, targets, c.to(dtype))
    loss.backward()
    their_loss.backward()
    assert loss.dtype == torch.float32
    assert float(loss.detach()) == pytest.approx(float(wanted.detach()), rel=0.01)
    for x, y, e in zip(ours, theirs, exact, strict=True):
        assert x.grad.dtype == dtype
        near = float((x.grad.double() - e.grad).norm() / e.grad.norm())
        assert near <= max(0.02, 1.5 * float((y.grad.double() - e.grad).norm() / e.grad.norm()))


@CHUNKS
@BIAS
def test_token_log_prob_is_a_log_softmax(chunked: None, biased: bool) -> None:
    (h, w, b), targets, _ = problem()
    met: list[int] = []

    def head(rows: Tensor) -> Tensor:
        met.append(len(rows))
        return F.linear(rows, w, b if biased else None)

    found = token_log_prob(head, h, targets, WORDS)
    wanted = torch.log_softmax(F.linear(h, w, b if biased else None), -1)
    torch.testing.assert_close(found, wanted.gather(1, targets[:, None]).squeeze(1))
    largest = chunk_rows(WORDS, h.device)
    assert max(met) == min(largest, ROWS)
    assert sum(met) == ROWS
    several = torch.stack([targets, (targets + 1) % WORDS, targets], 1)
    torch.testing.assert_close(token_log_prob(head, h, several, WORDS), wanted.gather(1, several))


def test_token_log_prob_keeps_no_graph_and_no_half_precision() -> None:
    (h, w, _), targets, _ = problem(torch.float32)
    w.requires_grad_()
    found = token_log_prob(lambda rows: F.linear(rows, w.bfloat16()), h.bfloat16(), targets, WORDS)
    assert found.dtype == torch.float32
    assert not found.requires_grad
    logits = F.linear(h.bfloat16(), w.bfloat16()).float()
    wanted = torch.log_softmax(logits, -1).gather(1, targets[:, None]).squeeze(1)
    torch.testing.assert_close(found, wanted.detach(), rtol=0, atol=1e-5)


def test_a_chunk_is_never_empty() -> None:
    assert chunk_rows(10**9, torch.device("cpu")) == 1
    assert chunk_rows(50_000, torch.device("cuda")) > chunk_rows(50_000, torch.device("cpu"))
