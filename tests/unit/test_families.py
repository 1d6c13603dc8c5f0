"""Language models of every family say what transformers' own pass says of one unpadded text, however texts come."""

import copy
import dataclasses
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import families
from families import CAUSAL, TEXTS, byte_level, causal, direction, next_logits, plain, slow_law
from lexergy.core import random
from lexergy.core.errors import LexergyError
from lexergy.core.types import Draws, Tokens
from lexergy.engine import vocabulary
from lexergy.engine.language_model import LanguageModel
from lexergy.engine.load import Loaded, load
from lexergy.loading import load_energy
from lexergy.proposals.causal import Causal

FAMILIES = pytest.mark.parametrize("family", CAUSAL)
LENGTHS = (5, 2, 9, 3, 12, 2, 6)
PROMPTS = ("the council", "a", "letters and", "so it")
CLOSE = {"rtol": 0, "atol": 2e-5}
"""float32 sums over two tiny layers, in another order of operations."""


def ragged(size: int, ends: int, backwards: bool) -> tuple[list[list[int]], list[list[bool]]]:
    """Rows of random ids, some of them EOS, and which are free: all but a context on the side that is read first."""
    rng = random.Keyed.of(3, "rows")
    rows = [rng.at(i).integers(size, length)[0].tolist() for i, length in enumerate(LENGTHS)]
    for row in rows[::2]:
        row[len(row) // 2] = ends
        row[-1] = ends
    free = [[t >= 1 + i % (len(row) - 1) for t in range(len(row))] for i, row in enumerate(rows)]
    return rows, [flags[::-1] for flags in free] if backwards else free


def padded(rows: Sequence[list[int]], free: Sequence[list[bool]], left: bool, pad: int) -> Tokens:
    """Rows in a rectangle with whatever stands in the padding."""
    width = max(map(len, rows))

    def fill(row: list, value: int | bool) -> list:
        gap = [value] * (width - len(row))
        return [*gap, *row] if left else [*row, *gap]

    real = [fill([True] * len(row), False) for row in rows]
    ids = torch.tensor([fill(row, pad) for row in rows])
    return Tokens(ids, torch.tensor(real), torch.tensor([fill(flags, False) for flags in free]))


@FAMILIES
@pytest.mark.parametrize("side", ["left", "right"])
def test_scores_are_those_of_one_unpadded_text(family: str, side: str) -> None:
    loaded = causal(family)
    lm, ends = LanguageModel(loaded), loaded.tokenizer.eos_token_id
    rows, free = ragged(len(loaded.tokenizer), ends, direction(loaded) == "right_to_left")
    wanted = [plain(loaded, row, flags) for row, flags in zip(rows, free, strict=True)]
    for size in (1, 2, 7):
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            tokens = padded(rows[part], free[part], side == "left", pad=ends)
            found = lm.token_log_prob(tokens)
            assert not found[~(tokens.mask & tokens.free)].any()
            for row, values in enumerate(wanted[part]):
                torch.testing.assert_close(found[row][tokens.mask[row]], torch.tensor(values), **CLOSE)
    whole = padded(rows, free, side == "left", pad=1)
    torch.testing.assert_close(lm.log_prob(whole), torch.tensor([sum(v) for v in wanted]).double(), rtol=0, atol=1e-4)


def test_families_that_change_their_logits_are_read_by_their_own_pass() -> None:
    by_matrix = {family: LanguageModel(causal(family)).head is not None for family in CAUSAL}
    assert [family for family, found in by_matrix.items() if not found] == ["gemma2", "cohere"]


def test_a_change_of_logits_too_small_to_see_is_seen() -> None:
    loaded = causal("gemma2")
    model = copy.deepcopy(loaded.model)
    model.config.final_logit_softcapping = 1000.0
    assert LanguageModel(dataclasses.replace(loaded, model=model)).head is None


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_the_vocabulary_is_met_in_chunks(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = causal(family)
    wanted = LanguageModel(loaded).log_prob(Tokens.of([[1, 2, 3, 4]] * 3, [1, 1, 2]))
    size = len(loaded.tokenizer)
    monkeypatch.setitem(vocabulary.CHUNK_ELEMENTS, "cpu", 5 * size)
    lm, met = LanguageModel(loaded), []
    head = loaded.model.get_output_embeddings()
    watching = head.register_forward_hook(lambda _m, _a, out: met.append(out.numel() // size))
    tokens = Tokens.of([[1, 2, 3, 4]] * 3, [1, 1, 2])
    found = [float(lm.token_log_prob(tokens)[row].sum()) for row in range(3)]
    most = max(met)
    lm.end_log_prob(tokens)
    watching.remove()
    assert most <= 5
    assert max(met) <= 5
    assert found == pytest.approx(wanted.tolist(), abs=1e-5)


def drawn_law(loaded: Loaded, draws: Draws, row: int, **law: float) -> tuple[float, float]:
    """log q and log p of a drawn row, worked out from transformers' pass over it and sorting alone."""
    ids, free = draws.tokens.real(row), draws.tokens.free[row][draws.tokens.mask[row]].tolist()
    logits = next_logits(loaded, ids)
    step = -1 if direction(loaded) == "left_to_right" else 1
    log_q = log_p = 0.0
    for t, token in enumerate(ids):
        if free[t]:
            log_q += float(torch.tensor(slow_law(logits[t + step], **law)[token]).log())  # type: ignore[arg-type]
            log_p += float(torch.log_softmax(logits[t + step], -1)[token])
    return log_q, log_p


@FAMILIES
def test_draws_know_their_probability(family: str) -> None:
    ends = tuple(range(0, 290, 8))
    loaded = causal(family, eos=ends)
    lm = Causal(loaded)
    assert lm.lm.eos == ends
    law = {"temperature": 0.8, "top_k": 60, "top_p": 0.9}
    for draws in lm.sample(list(PROMPTS), n=3, max_new_tokens=7, seed=0, **law):
        torch.testing.assert_close(draws.log_p, lm.log_prob(draws), rtol=0, atol=1e-4)
        for row in range(len(draws)):
            log_q, log_p = drawn_law(loaded, draws, row, **law)
            assert float(draws.log_q[row]) == pytest.approx(log_q, abs=1e-4)
            assert float(draws.log_p[row]) == pytest.approx(log_p, abs=1e-4)
    many = lm.sample("a", n=24, max_new_tokens=12, seed=1)
    torch.testing.assert_close(many.log_q, many.log_p)
    torch.testing.assert_close(many.log_p, lm.log_prob(many), rtol=0, atol=1e-4)
    lengths = (many.tokens.free & many.tokens.mask).sum(1)
    assert len(set(lengths.tolist())) > 1
    for row in range(len(many)):
        written = many.tokens.free_ids(row)
        written = written if lm.direction == "left_to_right" else written[::-1]
        assert not set(written[:-1]) & set(ends)
        assert len(written) == 12 or written[-1] in ends
    across = lm.sample("a", n=24, max_new_tokens=12, seed=1, space="fixed")
    assert (across.tokens.free & across.tokens.mask).sum(1).tolist() == [12] * 24
    torch.testing.assert_close(across.log_p, lm.log_prob(across), rtol=0, atol=1e-4)


def test_every_sample_and_step_draws_anew() -> None:
    model = copy.deepcopy(causal("gpt2").model)
    model.get_output_embeddings().weight.data.zero_()  # every token is as probable as any other
    lm = Causal(load((model, byte_level()), "causal"))
    for draws in lm.sample(["a", "so"], n=10, max_new_tokens=6, seed=0, space="fixed"):
        written = [draws.tokens.free_ids(row) for row in range(10)]
        # 60 of some 290 tokens, uniformly: 54 different ones on average, fewer than 40 once in 10⁹ seeds.
        assert len({token for row in written for token in row}) >= 40
        torch.testing.assert_close(draws.log_q, torch.full((10,), -6 * math.log(lm.lm.vocabulary)).double())


@FAMILIES
def test_draws_are_the_same_texts_in_any_company(family: str) -> None:
    loaded = causal(family, eos=tuple(range(0, 290, 20)))
    lm = Causal(loaded)
    narrow = Causal(dataclasses.replace(loaded, plan=dataclasses.replace(loaded.plan, tokens=30)))
    together = lm.sample(list(PROMPTS), n=4, max_new_tokens=8, top_k=40, seed=5)
    for prompt, draws, few in zip(
        PROMPTS, together, narrow.sample(list(PROMPTS), n=4, max_new_tokens=8, top_k=40, seed=5), strict=True
    ):
        alone = lm.sample(prompt, n=4, max_new_tokens=8, top_k=40, seed=5)
        one = lm.sample(prompt, n=1, max_new_tokens=8, top_k=40, seed=5)
        assert draws.texts == few.texts == alone.texts
        assert one.texts == draws.texts[:1]
        assert [alone.tokens.real(i) for i in range(4)] == [draws.tokens.real(i) for i in range(4)]
        torch.testing.assert_close(few.log_q, alone.log_q, rtol=0, atol=1e-4)
    assert len({text for draws in together for text in draws.texts}) > 8


@FAMILIES
def test_a_text_with_its_end_is_a_product_of_conditionals(family: str) -> None:
    loaded = causal(family, eos=(3, 8))
    lm = Causal(loaded)
    for text, context in zip(TEXTS, ["the council ", "", "a"] * 2, strict=True):
        (ids, start, end), before = lm.encode([text], context)[0], lm.log_prob([text], context)
        free = [start <= t < end for t in range(len(ids))]
        assert before == pytest.approx([sum(plain(loaded, ids, free))], abs=1e-4)
        last = next_logits(loaded, ids)[-1 if lm.direction == "left_to_right" else 0]
        ending = float(torch.log_softmax(last, -1).exp()[[3, 8]].sum().log())
        assert lm.log_prob([text], context, eos=True) == pytest.approx([before[0] + ending], abs=1e-4)
    batch = lm.log_prob(TEXTS, "a river ", eos=True)
    assert batch == pytest.approx([lm.log_prob([text], "a river ", eos=True)[0] for text in TEXTS], abs=1e-4)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_bos_is_there_once(family: str) -> None:
    loaded = causal(family, bos=True)
    bos = loaded.tokenizer.bos_token_id
    lm, never = Causal(loaded), Causal(loaded, bos="never")
    assert lm.prompt_ids("") == [bos]
    assert lm.prompt_ids(f"{families.BOS}a river").count(bos) == 1
    assert never.prompt_ids("a river") == lm.prompt_ids("a river")[1:]
    for texts, context, count in [(["so"], "", 1), (["so"], f"{families.BOS}a", 1), ([f"{families.BOS}so"], "", 1)]:
        ids, start, end = lm.encode(texts, context)[0]
        assert ids.count(bos) == count
        assert start >= 1
        free = [start <= t < end for t in range(len(ids))]
        assert lm.log_prob(texts, context) == pytest.approx([sum(plain(loaded, ids, free))], abs=1e-4)
    assert lm.log_prob(["so"], "a ") != pytest.approx(never.log_prob(["so"], "a "))
    without = byte_level()
    always = Causal(dataclasses.replace(causal(family), tokenizer=without), bos="always")
    with pytest.raises(LexergyError, match="no BOS"):
        always.prompt_ids("a")


def test_backwards_no_bos_stands_inside_what_is_written() -> None:
    lm = Causal(causal("ours backwards", bos=True))
    bos = lm.tokenizer.bos_token_id
    assert bos not in lm.prompt_ids("a river")
    assert lm.encode(["so "], "a river")[0][0] == lm.tokenizer.encode("so a river", add_special_tokens=False)
    assert lm.prompt_ids("") == [bos]
    draws = lm.sample("a river", n=2, max_new_tokens=3, seed=0)
    assert draws.tokens.real(0)[-len(lm.prompt_ids("a river")) :] == lm.prompt_ids("a river")


def test_an_empty_prompt_is_what_texts_start_from_or_an_error() -> None:
    lm = Causal(causal("gpt2"))
    assert lm.prompt_ids("") == [lm.tokenizer.eos_token_id]
    draws = lm.sample("", n=2, max_new_tokens=3, seed=0)
    torch.testing.assert_close(draws.log_p, lm.log_prob(draws), rtol=0, atol=1e-4)
    assert lm.log_prob([""]) == [0.0]
    assert lm.log_prob([]) == []
    none = byte_level(eos=False)
    model = CAUSAL["gpt2"](vocab_size=len(none), bos_token_id=None, eos_token_id=None).eval()
    nothing = Causal(load((model, none), "causal"))
    assert nothing.lm.eos == ()
    for call in (lambda: nothing.sample(""), lambda: nothing.log_prob(["so"]), lambda: nothing.log_prob([""])):
        with pytest.raises(LexergyError, match="has no BOS or EOS"):
            call()
    with pytest.raises(LexergyError, match="has no EOS"):
        nothing.log_prob(["so"], "a", eos=True)
    assert nothing.sample("a", n=2, max_new_tokens=3, seed=0).law.eos == ()
    with pytest.raises(LexergyError, match="no ids"):
        lm.draw([[1], []], 1, lm.law_of(2))
    with pytest.raises(LexergyError, match="nothing stands before it"):
        lm.log_prob(Tokens.of([[1, 2]]))


def test_too_long_is_refused() -> None:
    lm = Causal(causal("gpt2"))
    with pytest.raises(LexergyError, match="do not fit the 40 positions"):
        lm.sample("a", max_new_tokens=families.POSITIONS)
    with pytest.raises(LexergyError, match="do not fit the 40 positions"):
        lm.log_prob(["a river in winter " * 10])


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "ours"])
def test_a_model_object_is_left_as_it_was(family: str) -> None:
    loaded = causal(family)
    model = copy.deepcopy(loaded.model)
    with torch.no_grad():
        for name in ("attention_dropout", "dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop"):
            if name in model.config.to_dict():
                setattr(model.config, name, 0.5)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.5
    model.train()
    next(iter(model.children())).training = False
    modes = [part.training for part in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    config, hooks = copy.deepcopy(model.config.to_dict()), [len(part._forward_hooks) for part in model.modules()]
    lm = Causal(load((model, loaded.tokenizer), "causal"))
    first = lm.sample("a", n=3, max_new_tokens=5, seed=0)
    assert first.texts == Causal(loaded).sample("a", n=3, max_new_tokens=5, seed=0).texts
    assert lm.log_prob(TEXTS) == pytest.approx(Causal(loaded).log_prob(TEXTS), abs=1e-4)
    assert [part.training for part in model.modules()] == modes
    assert model.config.to_dict() == config
    assert [len(part._forward_hooks) for part in model.modules()] == hooks
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_a_generation_config_changes_no_law() -> None:
    loaded = causal("gpt2")
    model = copy.deepcopy(loaded.model)
    wanted = Causal(loaded).sample("a", n=4, max_new_tokens=5, seed=0)
    asked = {"temperature": 0.1, "top_k": 1, "top_p": 0.1, "repetition_penalty": 9.0, "eos_token_id": list(range(200))}
    model.generation_config.update(do_sample=True, max_new_tokens=1, **asked)
    kept = model.generation_config.to_dict()
    lm = Causal(load((model, loaded.tokenizer), "causal"))
    found = lm.sample("a", n=4, max_new_tokens=5, seed=0)
    assert lm.lm.eos == (loaded.tokenizer.eos_token_id,)
    assert found.texts == wanted.texts
    assert found.law.exact
    torch.testing.assert_close(found.log_q, wanted.log_q)
    assert model.generation_config.to_dict() == kept


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "ours"])
def test_bf16_is_as_near_to_float32_as_transformers_own(family: str) -> None:
    exact = causal(family)
    half = dataclasses.replace(exact, model=copy.deepcopy(exact.model).to(torch.bfloat16))
    rows, free = ragged(len(exact.tokenizer), 0, False)
    tokens = padded(rows, free, left=True, pad=0)
    wanted = torch.tensor([value for row, flags in zip(rows, free, strict=True) for value in plain(exact, row, flags)])
    theirs = torch.tensor([value for row, flags in zip(rows, free, strict=True) for value in plain(half, row, flags)])
    ours = LanguageModel(half).token_log_prob(tokens)[tokens.mask]
    assert ours.dtype == torch.float32
    assert away(ours, wanted) <= 1.1 * away(theirs, wanted)
    draws = Causal(half).sample("the council", n=16, max_new_tokens=12, seed=0, space="fixed")
    rescored = LanguageModel(exact).log_prob(draws.tokens)
    free_rows = [draws.tokens.free[row].tolist() for row in range(16)]
    own = torch.tensor([sum(plain(half, draws.tokens.real(row), free_rows[row])) for row in range(16)]).double()
    assert away(draws.log_p, rescored) <= 1.1 * away(own, rescored) + 0.02


def away(values: Tensor, reference: Tensor) -> float:
    """Mean distance."""
    return float((values - reference).abs().mean())


def test_a_dtype_that_the_probe_does_not_measure_is_kept() -> None:
    loaded = causal("gpt2")
    half = load((copy.deepcopy(loaded.model).half(), loaded.tokenizer), "causal")
    assert LanguageModel(half).dtype == "float16"
    assert Causal(half).log_prob(["so"]) == pytest.approx(Causal(loaded).log_prob(["so"]), abs=0.1)
    with pytest.raises(LexergyError, match="keeps its own dtype"):
        load((loaded.model, loaded.tokenizer), "causal", dtype="bfloat16")


def test_a_model_without_a_cache_scores_but_does_not_draw() -> None:
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    tokenizer = byte_level()
    config = OpenAIGPTConfig(vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=40)
    lm = Causal(load((OpenAIGPTLMHeadModel(config).eval(), tokenizer), "causal"))
    assert lm.log_prob(["so"], "a")[0] < 0
    with pytest.raises(LexergyError, match="no keys and values"):
        lm.sample("a", max_new_tokens=3)


@FAMILIES
def test_a_saved_checkpoint_loads_as_what_it_was(family: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    loaded, folder = causal(family), tmp_path_factory.mktemp("saved")
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    again = load(folder, "causal", device="cpu", dtype="float32")
    assert type(again.model) is type(loaded.model)
    assert Causal(again).log_prob(TEXTS, "so ") == pytest.approx(Causal(loaded).log_prob(TEXTS, "so "), abs=1e-5)
    assert Causal(again).lm.hash == Causal(loaded).lm.hash
    energy = load_energy(str(folder), kind="lm", device="cpu", dtype="float32")
    minus = [-value for value in Causal(loaded).log_prob(TEXTS, "so ")]
    assert energy.score(TEXTS, "so ") == pytest.approx(minus, abs=1e-4)
