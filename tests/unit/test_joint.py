"""Joint models over a universe small enough to sum: Z, probabilities, weights and perplexities against enumeration; what is
saved comes back; what cannot hold is refused.

Where draws are compared with a sum, the tolerance is five standard errors of log Ẑ, √((n/ESS − 1)/n): one correct program
in a million would fail, and with these seeds this one does not.
"""

import dataclasses
import math
import shutil
import warnings
from itertools import chain, repeat
from pathlib import Path

import pytest
import torch
from torch import Tensor

import lexergy as lx
from lexergy.core import random, toy
from lexergy.core.bounds import certified_gain, log_z_lower
from lexergy.core.errors import LexergyError
from lexergy.core.types import Bounds, Law, Space, Tokens
from lexergy.energies import bag, transformer
from lexergy.energies.bag import Bag
from lexergy.energies.base import Energy
from lexergy.energies.function import Function
from lexergy.engine.load import load
from lexergy.evaluation.held_out import held_out
from lexergy.evaluation.perplexity import Judged, perplexity
from lexergy.joint import Joint
from lexergy.nets.transformer import TransformerForCausalLM
from lexergy.proposals import causal
from lexergy.proposals.causal import Causal
from lexergy.text.document import Document
from lexergy.text.tokenisers import character_tokenizer
from lexergy.text.windows import Window, windows
from lexergy.training.lm import save_model

LENGTH, EOS = 3, 3
SPACES: list[Space] = ["until_eos", "fixed"]


@pytest.fixture(scope="module")
def lm() -> Causal:
    return causal.tiny()


@pytest.fixture(scope="module")
def energy() -> Energy:
    return 0.5 * transformer.tiny()


def universe(space: Space) -> toy.Universe:
    return toy.Universe(vocabulary=6, length=LENGTH, eos=EOS if space == "until_eos" else None)


def exact(joint: Joint, context: list[int]) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every continuation, and log P_LM − E of each."""
    rows = universe(joint.space).rows
    tokens = Tokens.of([[*context, *row] for row in rows], [len(context)] * len(rows))
    energies = joint.energy.reading(joint.proposal.tokenizer).of_tokens(tokens)
    return list(rows), joint.proposal.token_log_prob(tokens) - energies


def spelt(lm: Causal, row: tuple[int, ...]) -> str:
    """A text as a user writes it: its end is not written."""
    ids = row[:-1] if row and row[-1] == EOS else row
    return "".join(lm.tokenizer.convert_ids_to_tokens(list(ids)))


def error(bounds: Bounds) -> float:
    return 5 * math.sqrt((bounds.n / bounds.ess - 1) / bounds.n)


@pytest.mark.parametrize("space", SPACES)
def test_the_bounds_hold_log_z(lm: Causal, energy: Energy, space: Space) -> None:
    joint = Joint(lm, energy, space=space, length=LENGTH)
    found = joint.log_z(["ab", "c", ""], n=1500, seed=0)
    for bounds, context in zip(found, ([0, 1], [2], [EOS]), strict=True):
        log_z = float(exact(joint, context)[1].logsumexp(0))
        assert bounds.upper is not None
        assert bounds.lower < bounds.upper
        assert bounds.resolved
        assert bounds.lower - error(bounds) < log_z < bounds.upper + error(bounds)
        assert abs(log_z) > 2 * error(bounds)  # the test would see a Z of 1
    assert joint.log_z("c", n=1500, seed=0) == found[1]  # alone as in a list


@pytest.mark.parametrize("space", SPACES)
def test_log_prob_is_normalised_over_the_space(lm: Causal, energy: Energy, space: Space) -> None:
    joint = Joint(lm, energy, space=space, length=LENGTH)
    rows, unnormalised = exact(joint, [0, 1])
    if space == "until_eos":
        texts = [spelt(lm, row) for row in rows]
    else:
        # An EOS inside a text is written out, where it is an ordinary token.
        texts = ["".join(lm.tokenizer.convert_ids_to_tokens(list(row))) for row in rows]
    found = joint.log_prob(texts, context="ab", n=1500, seed=0)
    z = joint.log_z("ab", n=1500, seed=0)
    assert z.upper is not None
    lower, upper = (torch.tensor([getattr(one, end) for one in found]).double() for end in ("lower", "upper"))
    assert torch.allclose(upper, unnormalised - z.lower, atol=1e-6)
    assert torch.allclose(lower, unnormalised - z.upper, atol=1e-6)
    assert abs(float(upper.logsumexp(0))) < error(z)  # mass 1
    log_p = unnormalised - unnormalised.logsumexp(0)
    assert bool((lower - error(z) < log_p).all())
    assert bool((log_p < upper + error(z)).all())


def test_log_prob_takes_every_end_of_several(lm: Causal, energy: Energy) -> None:
    two = Causal(load((lm.lm.model, lm.tokenizer), "causal"), eos=[EOS, 5])
    joint = Joint(two, energy, length=LENGTH)
    (found,) = joint.log_prob(["b"], context="a", n=64, seed=0)
    tokens = Tokens.of([[0, 1, EOS], [0, 1, 5]], [1, 1])
    each = lm.token_log_prob(tokens) - energy.of_tokens(tokens)
    assert found.upper == pytest.approx(float(each.logsumexp(0)) - joint.log_z("a", n=64, seed=0).lower)


def test_what_is_no_text_of_the_space_has_no_probability(lm: Causal, energy: Energy) -> None:
    ended = Joint(lm, energy, length=LENGTH)
    with pytest.raises(LexergyError, match="at most 3 tokens; received one of 4"):
        ended.log_prob(["abca"], context="a", n=4)
    with pytest.raises(LexergyError, match="goes on after an EOS"):
        ended.log_prob(["<|endoftext|>a"], context="a", n=4)
    fixed = Joint(lm, energy, space="fixed", length=LENGTH)
    with pytest.raises(LexergyError, match="exactly 3 tokens; received one of 2"):
        fixed.log_prob(["ab"], context="a", n=4)
    endless = Causal(load((lm.lm.model, lm.tokenizer), "causal"), eos=[])
    with pytest.raises(LexergyError, match="never ends"):
        Joint(endless, energy, length=LENGTH).log_prob(["ab"], context="a", n=4)
    assert ended.log_prob([]) == []


def test_one_draw_has_no_upper_bound(lm: Causal, energy: Energy) -> None:
    joint = Joint(lm, energy, length=LENGTH)
    assert joint.log_z("a", n=1, seed=0).upper is None
    (found,) = joint.log_prob(["b"], context="a", n=1, seed=0)
    assert found.lower == -math.inf
    assert math.isfinite(found.upper or math.inf)


def test_samples_are_weighted_by_what_their_law_says(lm: Causal, energy: Energy) -> None:
    joint = Joint(lm, energy, length=LENGTH)
    out = joint.sample("ab", n=40, top_k=3, temperature=0.5, seed=4)
    own = energy.of_tokens(out.tokens)
    assert torch.equal(out.energy, own)
    assert torch.equal(out.log_weight, -own)
    assert "Q·exp(−E)" in out.law
    assert "top-k 3" in out.law
    full = joint.sample("ab", n=40, top_k=3, temperature=0.5, base="full", seed=4)
    assert full.texts == out.texts
    assert full.log_p is not None
    assert torch.allclose(full.log_weight, full.log_p - full.log_q - own)
    assert "P_LM·exp(−E), on the texts that Q reaches" in full.law
    plain = joint.sample("ab", n=40, seed=4)
    assert plain.law.startswith("P_LM·exp(−E), approached by 40")
    assert torch.allclose(plain.weight.sum(), torch.ones((), dtype=torch.float64))
    assert out.pick(3, seed=1) == out.pick(3, seed=1)
    assert set(out.pick(3, seed=1)) <= set(out.texts)


def test_weighted_samples_follow_the_joint_law(lm: Causal, energy: Energy) -> None:
    joint = Joint(lm, energy, length=LENGTH)
    rows, unnormalised = exact(joint, [0, 1])
    law = torch.softmax(unnormalised, 0)
    out = joint.sample("ab", n=4000, seed=0)
    found = torch.zeros(len(rows), dtype=torch.float64)
    places = {row: i for i, row in enumerate(rows)}
    found.index_add_(0, torch.tensor([places[tuple(out.tokens.free_ids(i))] for i in range(4000)]), out.weight)
    # Σ|p̂ − p| / 2 has expectation below √(texts / ESS) / 2 = 0.12; drawn without weights it is 0.3 here.
    assert float((found - law).abs().sum() / 2) < 0.15
    assert float((lm_law(joint, rows) - law).abs().sum() / 2) > 0.25


def lm_law(joint: Joint, rows: list[tuple[int, ...]]) -> Tensor:
    return joint.proposal.token_log_prob(Tokens.of([[0, 1, *row] for row in rows], [2] * len(rows))).exp()


def test_one_prompt_gives_one_result_and_a_list_a_list(lm: Causal, energy: Energy) -> None:
    joint = Joint(lm, energy, length=LENGTH)
    one = joint.sample("ab", n=5, seed=3)
    many = joint.sample(["c", "ab"], n=5, seed=3)
    assert isinstance(many, list)
    assert many[1].texts == one.texts
    assert torch.allclose(many[1].energy, one.energy)
    assert many[0].texts != one.texts
    assert joint.sample([], n=5) == []
    assert joint.log_z([], n=5) == []


def test_a_prompt_that_comes_again_is_estimated_by_draws_of_its_own(lm: Causal, energy: Energy) -> None:
    first, second = Joint(lm, energy, length=LENGTH).log_z(["ab", "ab"], n=50, seed=0)
    assert first != second


def test_longer_than_the_length_is_refused_and_shorter_is_not(lm: Causal, energy: Energy) -> None:
    joint = Joint(lm, energy, length=LENGTH)
    with pytest.raises(LexergyError, match="at most 3 tokens; received max_new_tokens=4"):
        joint.sample("a", n=2, max_new_tokens=4)
    with pytest.raises(LexergyError, match="max_new_tokens=4"):
        joint.log_z("a", n=2, max_new_tokens=4)
    assert max(len(text) for text in joint.sample("a", n=8, max_new_tokens=1, seed=0).texts) <= 1


def test_the_seed_of_the_draws_is_recorded(lm: Causal, energy: Energy) -> None:
    joint = Joint(lm, energy, length=LENGTH)
    found = joint.log_z("a", n=9)
    assert found.seed is not None
    assert joint.log_z("a", n=9, seed=found.seed) == found
    (one,) = joint.log_prob(["b"], context="a", n=9)
    assert joint.log_prob(["b"], context="a", n=9, seed=one.seed) == [one]
    assert one.seed != found.seed


@pytest.mark.parametrize(
    ("swap", "said"),
    [
        ({"proposal": "runs/lm"}, "as load_proposal gives it; received 'runs/lm'"),
        ({"energy": 3}, "or a function of texts; received 3"),
        ({"energy": "runs/energy"}, "as load_energy gives it"),
    ],
    ids=range(3),
)
def test_what_is_no_model_and_no_energy(lm: Causal, energy: Energy, swap: dict[str, object], said: str) -> None:
    make = getattr(Joint.__init__, "__wrapped__", Joint.__init__)
    with pytest.raises(LexergyError, match=said):
        make(Joint.__new__(Joint), **{"proposal": lm, "energy": energy, **swap})


def test_mistaken_options_of_a_draw(lm: Causal) -> None:
    with pytest.raises(LexergyError, match=r"Unknown option of sample 'top_kk'. Did you mean 'top_k'"):
        lm.sample("a", top_kk=1)
    law_of, resolve = (getattr(one, "__wrapped__", one) for one in (Causal.law_of, random.resolve))
    for eos in ("x", [99], [-1]):
        with pytest.raises(LexergyError, match="eos is a token id, or a list of them, each from 0 to 5"):
            law_of(lm, 3, eos=eos)
    assert law_of(lm, 3, eos=[1, 2], seed=0).eos == (1, 2)
    with pytest.raises(LexergyError, match=r"A seed is a whole number, or None .* received 'x'"):
        resolve("x")


def test_windows_are_checked_where_nothing_is_too_long(energy: Energy) -> None:
    part = bag.tiny()
    score = getattr(type(part).score, "__wrapped__", type(part).score)
    assert score(part, ["ab"], windows="mean") == score(part, ["ab"])
    with pytest.raises(LexergyError, match=r"windows is .* received 'max'"):
        score(part, ["ab"], windows="max")


@pytest.mark.parametrize(
    ("options", "said"),
    [({"length": 0}, "at least 1 token"), ({"space": "until"}, "space is")],
    ids=["length", "space"],
)
def test_a_joint_model_that_cannot_be(lm: Causal, energy: Energy, options: dict[str, object], said: str) -> None:
    make = getattr(Joint.__init__, "__wrapped__", Joint.__init__)  # what a user without a type checker meets
    with pytest.raises(LexergyError, match=said):
        make(Joint.__new__(Joint), lm, energy, **options)


def test_a_model_that_writes_backwards_is_refused(lm: Causal, energy: Energy) -> None:
    config = lm.lm.model.config.__class__(**{**lm.lm.model.config.to_dict(), "direction": "right_to_left"})
    backwards = Causal(load((TransformerForCausalLM(config).double(), lm.tokenizer), "causal"))
    with pytest.raises(LexergyError, match="reads right to left"):
        Joint(backwards, energy)


# Functions, constraints, other tokens


def test_any_function_is_an_energy(lm: Causal) -> None:
    seen: list[str] = []

    def length(texts: list[str]) -> list[float]:
        seen.extend(texts)
        return [0.5 * len(text) for text in texts]

    joint = Joint(lm, length, length=LENGTH)
    out = joint.sample("ab", n=20, seed=0)
    assert out.energy.tolist() == [0.5 * (2 + len(text)) for text in out.texts]
    assert all(text.startswith("ab") for text in seen)  # the whole text, context included
    z = joint.log_z("ab", n=1500, seed=0)
    assert abs(float(exact(joint, [0, 1])[1].logsumexp(0)) - z.lower) < error(z)


def test_what_is_forbidden_has_no_weight(lm: Causal) -> None:
    joint = Joint(lm, lambda texts: [math.inf if "b" in text else 0.0 for text in texts], length=LENGTH)
    out = joint.sample("a", n=200, seed=0)
    assert {("b" in text) for text, w in zip(out.texts, out.weight.tolist(), strict=True) if w == 0} == {True}
    assert not any("b" in text for text in out.pick(50))
    z = joint.log_z("a", n=1500, seed=0)
    assert abs(float(exact(joint, [0])[1].logsumexp(0)) - z.lower) < error(z)
    (found,) = joint.log_prob(["b"], context="a", n=100, seed=0)
    assert (found.lower, found.upper) == (-math.inf, -math.inf)


def test_where_all_is_forbidden_it_is_said(lm: Causal, tmp_path: Path) -> None:
    joint = Joint(lm, lambda texts: [math.inf] * len(texts), length=LENGTH)
    with pytest.raises(LexergyError, match="All 7 drawn texts are forbidden"):
        joint.sample("a", n=7)
    with pytest.raises(LexergyError, match=r"forbids .* all 7 draws"):
        joint.log_z("a", n=7)
    with pytest.raises(LexergyError, match=r"forbids .* all 7 draws"):
        joint.log_prob(["b"], context="a", n=7)
    with pytest.raises(LexergyError, match=r"forbids .* all 7 draws"):
        joint.perplexity(documents=documents(3), n=7, prefix=2, windows=3, quiet=True)
    some = Joint(lm, lambda texts: [math.inf if text.endswith("c") else 0.0 for text in texts], "fixed", LENGTH)
    with pytest.raises(LexergyError, match=r"forbids .* true continuation of window"):
        some.perplexity(documents=[Document("ab" * 4 + "c", "g", "")], n=50, prefix=6, windows=3, quiet=True)


def test_an_energy_that_is_not_a_number_names_its_row(lm: Causal) -> None:
    joint = Joint(lm, lambda texts: [math.nan if text.endswith("c") else 0.0 for text in texts], length=LENGTH)
    with pytest.raises(LexergyError, match="is nan"):
        joint.sample("a", n=60, seed=0)


def test_an_energy_of_other_tokens_is_a_function_of_the_text(lm: Causal) -> None:
    tokenizer = character_tokenizer(toy.LETTERS[::-1], eos=None)
    other = Bag(tokenizer)
    torch.nn.init.normal_(other.weight, generator=torch.Generator().manual_seed(0))
    joint = Joint(lm, other, length=LENGTH)
    out = joint.sample("ab", n=30, seed=0)
    assert out.energy.tolist() == pytest.approx(other.score(out.texts, context="ab"), abs=1e-6)
    assert len(set(out.energy.tolist())) > 3
    z = joint.log_z("ab", n=1500, seed=0)
    assert abs(float(exact(joint, [0, 1])[1].logsumexp(0)) - z.lower) < error(z)


# What the energy was trained against


def mined(lm: Causal, **changes: object) -> Law:
    return dataclasses.replace(lm.law_of(LENGTH, seed=0), **changes)  # type: ignore[arg-type]


def trained(law: Law) -> Energy:
    found = bag.tiny()
    found.mined = law
    return found


def test_an_energy_trained_on_this_very_law_is_taken_in_silence(lm: Causal) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Joint(lm, trained(mined(lm)), length=LENGTH)


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: 0.5 * e, lambda e: e + bag.tiny()], ids=["", "scaled", "sum"])
def test_an_energy_of_another_law_is_warned_of_or_refused(lm: Causal, wrap) -> None:
    with pytest.raises(LexergyError, match="in the space 'fixed'"):
        Joint(lm, wrap(trained(mined(lm, space="fixed"))), length=LENGTH)
    for changes, said in [
        ({"hash": "0", "model": "other"}, "against other, another model"),
        ({"top_k": 2}, "by another law"),
        ({"temperature": 0.7}, "by another law"),
        ({"max_new_tokens": 2}, "up to 2 tokens, not 3"),
    ]:
        with pytest.warns(UserWarning, match=said):
            Joint(lm, wrap(trained(mined(lm, **changes))), length=LENGTH)


def test_an_energy_of_truncated_draws_knows_nothing_of_the_full_law(lm: Causal) -> None:
    with pytest.warns(UserWarning, match="by another law"):
        joint = Joint(lm, 0.5 * trained(mined(lm, top_k=2)), length=LENGTH)
    with pytest.raises(LexergyError, match="defined everywhere"):
        joint.sample("a", n=4, top_k=2, base="full")
    assert len(joint.sample("a", n=4, top_k=2)) == 4


# Perplexity


def documents(count: int) -> list[Document]:
    return [
        Document("".join("abc"[(i + j * j * (i + 1)) % 3] for j in range(4 + i % 5)), f"g{i // 2}", "")
        for i in range(count)
    ]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("prefix", [2, 0])
def test_perplexity_against_enumeration(lm: Causal, energy: Energy, space: Space, prefix: int) -> None:
    joint = Joint(lm, energy, space=space, length=LENGTH)
    chosen = joint.held_out(documents(20), prefix, 12, seed=0)
    report = joint.perplexity(documents=documents(20), n=600, prefix=prefix, windows=12, seed=0, quiet=True)
    assert (report.windows, report.n, report.groups) == (12, 600, len({w.group for w in chosen}))
    start = [EOS]
    log_p = [
        float(lm.token_log_prob(Tokens.of([[*(w.context or start), *w.continuation]], [len(w.context or start)])))
        for w in chosen
    ]
    size = sum(len(w.continuation) for w in chosen)
    assert report.tokens == size
    assert report.base.value == pytest.approx(math.exp(-sum(log_p) / size))
    total = 0.0
    for window in chosen:
        rows, unnormalised = exact(joint, window.context or start)
        total += float((unnormalised - unnormalised.logsumexp(0))[rows.index(tuple(window.continuation))])
    truth = math.exp(-total / size)
    # 12 estimates of log Z, each with a standard error of about 0.04, over some 36 tokens.
    assert report.lower.value == pytest.approx(truth, rel=0.03)
    assert report.upper.value == pytest.approx(truth, rel=0.03)
    assert report.lower.value < report.upper.value
    assert report.certified.value > truth * 0.97
    judged = report.judged
    gain = certified_gain(judged.energy, judged.true_energy)
    assert report.certified.value == pytest.approx(math.exp(-float((judged.log_p + gain).sum()) / size))
    assert report.saved.value == pytest.approx(report.base.value - report.certified.value)
    assert report.gain.value == pytest.approx(float(gain.mean()))
    assert report.base.low < report.base.value < report.base.high
    assert report.resolved == report.resolution.resolved
    assert "untruncated" in report.law


def test_a_file_is_read_as_a_corpus(lm: Causal, energy: Energy, tmp_path: Path) -> None:
    file = tmp_path / "heldout.txt"
    file.write_text("\n\n".join(one.text for one in documents(10)), encoding="utf-8")
    joint = Joint(lm, energy, length=LENGTH)
    report = joint.perplexity(file, n=20, prefix=2, windows=5, seed=0, quiet=True)
    assert report == dataclasses.replace(
        joint.perplexity(file=str(file), n=20, prefix=2, windows=5, seed=0, quiet=True), judged=report.judged
    )
    assert report.to_json()["certified"]["value"] == report.certified.value
    assert "judged" not in report.to_json()
    assert "tensor" not in repr(report)
    with pytest.raises(LexergyError, match="one of the two"):
        joint.perplexity(n=4)
    with pytest.raises(LexergyError, match="windows=0"):
        joint.perplexity(file, n=4, prefix=2, windows=0)


def test_intervals_are_over_groups_and_an_unbounded_window_is_told(lm: Causal) -> None:
    judged = Judged(
        log_p=torch.tensor([-3.0, -5.0, -4.0, -2.0]).double(),
        true_energy=torch.tensor([-1.0, 0.5, 0.0, -0.3]).double(),
        energy=torch.tensor([[0.1, 0.2], [-0.4, 0.3], [0.0, math.inf], [math.inf, 1.0]]).double(),
        sizes=torch.tensor([2, 3, 2, 1]),
        groups=["a", "a", "b", "b"],
        law="a law",
    )
    report = perplexity(judged)
    assert report.groups == report.base.n == 2
    assert report.upper.value == math.inf  # where all draws but one are forbidden nothing bounds Z
    assert math.isfinite(report.lower.value)
    assert math.isfinite(report.certified.value)
    # True texts: right, wrong, half, right. Draws: five right, one wrong, one half; +inf is right.
    assert report.accuracy == pytest.approx((2.5 / 4 + 6.5 / 8) / 2)
    assert perplexity(dataclasses.replace(judged, groups=["a"] * 4)).base.low == -math.inf
    lower = -(judged.log_p - judged.true_energy - log_z_lower(judged.energy)).sum() / 8
    assert report.lower.value == pytest.approx(math.exp(lower))


def test_held_out_windows_come_from_each_group_in_turn(lm: Causal) -> None:
    texts = [Document("abc" * 30, "long", ""), *(Document("cba" * (2 + i), f"g{i % 3}", "") for i in range(6))]
    every = list(windows(texts, lm.tokenizer, 2, 3, "until_eos"))
    for count in (1, 4, 7, 20, 500):
        found = held_out(texts, lm.tokenizer, 2, 3, "until_eos", count, seed=1)
        assert len(found) == min(count, len(every))
        shares = [sum(w.group == group for w in found) for group in ("long", "g0", "g1", "g2")]
        assert max(shares) - min(shares) <= 1 or count > 12
        larger = held_out(texts, lm.tokenizer, 2, 3, "until_eos", count + 40, seed=1)
        assert found == larger[:count]  # whatever was dropped on the way is not missed
    assert held_out(texts, lm.tokenizer, 2, 3, "until_eos", 4, seed=2) != held_out(
        texts, lm.tokenizer, 2, 3, "until_eos", 4, seed=1
    )


def test_no_window_is_too_late_to_be_chosen(lm: Causal, monkeypatch: pytest.MonkeyPatch) -> None:
    early, late = (Window([0], [1], group) for group in ("early", "late"))
    monkeypatch.setattr("lexergy.evaluation.held_out.windows", lambda *_, **__: chain(repeat(early, 200_010), [late]))
    assert held_out([], lm.tokenizer, 1, 1, "fixed", 300).count(late) == 1


# Saving


@pytest.fixture
def saved(lm: Causal, tmp_path: Path) -> Path:
    """runs/ with a language model and a joint model over it."""
    save_model(lm.lm.model, lm.tokenizer, tmp_path / "runs" / "lm")
    proposal = lx.load_proposal(tmp_path / "runs" / "lm", dtype="float32", bos="never", eos=[EOS, 5])
    Joint(proposal, 0.5 * bag.tiny(), space="fixed", length=LENGTH).save_pretrained(tmp_path / "runs" / "joint")
    return tmp_path / "runs"


def test_a_saved_joint_model_comes_back_where_both_have_moved(saved: Path, tmp_path: Path) -> None:
    before = Joint.from_pretrained(saved / "joint", dtype="float32")
    assert (before.space, before.length, before.proposal.bos, before.proposal.lm.eos) == (
        "fixed",
        LENGTH,
        "never",
        (EOS, 5),
    )
    drawn = before.sample("ab", n=6, seed=0)
    shutil.move(saved, tmp_path / "elsewhere")
    after = lx.Joint.from_pretrained(tmp_path / "elsewhere" / "joint", dtype="float32")
    again = after.sample("ab", n=6, seed=0)
    assert again.texts == drawn.texts
    assert torch.allclose(again.energy, drawn.energy)
    assert not list((tmp_path / "elsewhere" / "joint").rglob("model.safetensors"))  # the weights are not copied


def test_a_saved_joint_model_by_its_hub_id(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "cache" / "models--someone--joint"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "v1").write_text("0" * 40, encoding="utf-8")
    shutil.copytree(saved / "joint", place / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    own = Joint.from_pretrained(saved / "joint", dtype="float32").sample("ab", n=3, seed=0).texts
    again = Joint.from_pretrained("someone/joint", revision="v1", dtype="float32")
    assert again.sample("ab", n=3, seed=0).texts == own
    with pytest.raises(LexergyError, match="is no saved joint model that this machine has"):
        Joint.from_pretrained("someone/joint", revision="v2")
    with pytest.raises(LexergyError, match="which has no revisions"):
        Joint.from_pretrained(str(saved / "joint"), revision="v1")


def test_other_weights_are_refused(saved: Path, lm: Causal) -> None:
    other = TransformerForCausalLM(lm.lm.model.config)
    shutil.rmtree(saved / "lm")
    save_model(other, lm.tokenizer, saved / "lm")
    with pytest.raises(LexergyError, match="has other weights"):
        Joint.from_pretrained(saved / "joint", dtype="float32")
    right = Joint.from_pretrained(saved / "joint", proposal=lm)  # its dtype does not matter
    assert right.proposal is lm
    shutil.rmtree(saved / "lm")
    with pytest.raises(LexergyError, match="There is no model at"):
        Joint.from_pretrained(saved / "joint")


def test_a_model_object_is_given_again(lm: Causal, tmp_path: Path) -> None:
    Joint(lm, bag.tiny(), length=LENGTH).save_pretrained(tmp_path / "joint")
    with pytest.raises(LexergyError, match=r"over a model object .* give it as proposal="):
        Joint.from_pretrained(tmp_path / "joint")
    assert Joint.from_pretrained(tmp_path / "joint", proposal=lm).length == LENGTH


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: 2.0 * e, lambda e: e + bag.tiny()], ids=["", "scaled", "sum"])
def test_a_function_cannot_be_saved_and_nothing_is_written(lm: Causal, tmp_path: Path, wrap) -> None:
    joint = Joint(lm, wrap(Function(lambda texts: [0.0] * len(texts))), length=LENGTH)
    with pytest.raises(LexergyError, match="Function cannot be saved"):
        joint.save_pretrained(tmp_path / "joint")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_joint_model_is_said(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(LexergyError, match="is no saved joint model"):
        Joint.from_pretrained(tmp_path)
    (saved / "joint" / "joint.json").write_text("{}", encoding="utf-8")
    with pytest.raises(LexergyError, match="lacks its space"):
        Joint.from_pretrained(saved / "joint")
