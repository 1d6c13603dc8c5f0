"""The plan: measured once and remembered, pinned when told so, each choice with its reason."""

import json
import os
from types import SimpleNamespace

import pytest
import torch
import transformers

from lexergy.core.errors import LexergyError
from lexergy.engine import measure, probe
from lexergy.engine.measure import Measured
from lexergy.engine.probe import AGREEMENT, Plan, Shape, agrees, plan

TINY = Shape(width=16, layers=2, feedforward=32, heads=2, vocabulary=100)
GB = 10**9


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """The probe switched on, with a cache of its own and plenty of memory."""
    monkeypatch.delenv("LEXERGY_PROBE", raising=False)
    monkeypatch.setenv("LEXERGY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(probe, "free_memory", lambda _: 64 * GB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return tmp_path / "cache"


@pytest.fixture
def measured(monkeypatch, cache):
    """What is measured, injected: change the numbers, count the measurements."""

    numbers = SimpleNamespace(
        rates={"float32": 100.0, "bfloat16": 400.0},
        sweep={512: 50.0, 1024: 96.0, 2048: 100.0, 4096: 99.0},
        steady=True,
        calls=[],
    )

    def rates(width, feedforward, device):
        numbers.calls.append("rates")
        return dict(numbers.rates), numbers.steady

    def sweep(width, feedforward, dtype, device, rate, free):
        numbers.calls.append(f"sweep {dtype}")
        return dict(numbers.sweep)

    monkeypatch.setattr(measure, "measure_rates", rates)
    monkeypatch.setattr(measure, "measure_sweep", sweep)
    return numbers


def files(cache):
    return sorted((cache / "probe").glob("*"))


def test_off_pins_everything_and_measures_nothing(monkeypatch, measured, cache):
    monkeypatch.setenv("LEXERGY_PROBE", "off")
    found = plan(TINY)
    assert (found.device, found.dtype, found.tokens) == ("cpu", "float32", 4096)
    assert found.pinned
    assert found.rates == {}
    assert measured.calls == []
    assert not cache.exists()


def test_off_says_how_many_threads_there_are(monkeypatch):
    monkeypatch.setenv("LEXERGY_PROBE", "off")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert (plan(TINY).threads, plan(TINY).reasons["threads"]) == (7, "as torch has them")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert plan(TINY).reasons["threads"] == "as OMP_NUM_THREADS says"


def test_off_still_does_what_is_asked(monkeypatch, measured):
    monkeypatch.setenv("LEXERGY_PROBE", "off")
    found = plan(TINY, device="cpu", dtype="bfloat16")
    assert (found.dtype, found.reasons["dtype"], found.reasons["device"]) == (
        "bfloat16",
        "asked for",
        "asked for",
    )


def test_a_real_measurement_is_made_once(monkeypatch, cache):
    monkeypatch.setattr(measure, "_SHARE", 0.0)  # whatever else this machine does while it tests
    monkeypatch.setattr(measure, "_SPREAD", 1e9)
    first = plan(TINY)
    assert set(first.rates) == {"float32", "bfloat16"}
    assert all(rate > 0 for rate in first.rates.values())
    assert first.threads == torch.get_num_threads()
    assert not first.pinned

    def never(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(measure, "_seconds", never)
    assert plan(TINY) == first
    with pytest.raises(AssertionError, match="measured again"):
        plan(TINY, fresh=True)
    with pytest.raises(AssertionError, match="measured again"):
        plan(Shape(width=32, layers=2, feedforward=32, heads=2, vocabulary=100))


def test_a_measurement_leaves_torchs_generator_and_threads_alone(cache):
    torch.manual_seed(7)
    expected = torch.rand(3)
    threads = torch.get_num_threads()
    torch.manual_seed(7)
    plan(TINY)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


def test_depth_and_words_share_a_measurement(measured, cache):
    plan(TINY)
    plan(Shape(width=16, layers=9, feedforward=32, heads=4, vocabulary=5000))
    assert measured.calls == ["rates", "sweep bfloat16"]
    assert len(files(cache)) == 1


def test_another_dtype_adds_to_what_is_known(measured, cache):
    plan(TINY)
    found = plan(TINY, dtype="float32")
    assert measured.calls == ["rates", "sweep bfloat16", "sweep float32"]
    assert (found.dtype, found.reasons["dtype"]) == ("float32", "asked for")
    plan(TINY)
    plan(TINY, dtype="torch.float32")
    assert len(measured.calls) == 3


@pytest.mark.parametrize(
    ("half", "dtype"),
    [(121.0, "bfloat16"), (119.0, "float32"), (3.0, "float32")],
    ids=["faster", "about", "slower"],
)
def test_bfloat16_on_a_cpu_only_where_it_is_faster(measured, half, dtype):
    measured.rates = {"float32": 100.0, "bfloat16": half}
    found = plan(TINY)
    assert found.dtype == dtype
    assert found.torch_dtype == getattr(torch, dtype)
    assert f"{half:.0f} against 100 GFLOP/s" in found.reasons["dtype"]


def test_the_smallest_budget_within_five_percent(measured):
    found = plan(TINY)
    assert found.tokens == 1024
    assert "96 of 100 GFLOP/s" in found.reasons["tokens"]


def test_the_budget_is_held_down_by_free_memory(monkeypatch, measured):
    shape = Shape(width=1000, layers=10, feedforward=4000, heads=10, vocabulary=10_000)
    weights, token = 2 * (10 * 16_000_000 + 10_000_000), 2 * (8_000 + 12_000 + 20_000)
    monkeypatch.setattr(probe, "free_memory", lambda _: 2 * (weights + 700 * token))
    found = plan(shape)
    assert found.tokens == 512
    assert "held down by memory" in found.reasons["tokens"]
    monkeypatch.setattr(probe, "free_memory", lambda _: 1000)
    assert plan(shape).tokens == 64
    monkeypatch.setattr(probe, "free_memory", lambda _: None)
    assert plan(shape).tokens == 1024
    assert "does not say" in plan(shape).reasons["tokens"]
    assert measured.calls == ["rates", "sweep bfloat16"]  # memory is asked each time, and never remembered


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: "{ cut off",
        lambda _: "[]",
        lambda _: b"\xff\xfe".decode("latin-1"),
        lambda said: json.dumps({**said, "format": 99}),
        lambda said: json.dumps({**said, "machine": {**said["machine"], "torch": "0.1"}}),
        lambda said: json.dumps({**said, "rates": {"float32": 1.0}}),
        lambda said: json.dumps({**said, "rates": {"float32": 1.0, "bfloat16": "fast"}}),
        lambda said: json.dumps({**said, "rates": {"float32": 0.0, "bfloat16": 1.0}}),
        lambda said: json.dumps({**said, "rates": {"float32": 1.0, "bfloat16": float("nan")}}),
        lambda said: json.dumps({**said, "sweeps": {"bfloat16": {"many": 1.0}}}),
        lambda said: json.dumps({**said, "sweeps": []}),
    ],
    ids=["cut", "list", "bytes", "format", "machine", "absent", "word", "zero", "nan", "count", "sweeps"],
)
def test_a_cache_that_cannot_be_believed_is_written_anew(measured, cache, spoil):
    first = plan(TINY)
    (file,) = files(cache)
    whole = json.loads(file.read_text())
    file.write_text(spoil(whole))
    assert plan(TINY) == first
    assert measured.calls == ["rates", "sweep bfloat16"] * 2
    assert {**json.loads(file.read_text()), "when": whole["when"]} == whole
    assert files(cache) == [file]


def test_a_cache_that_cannot_be_written_is_no_error(measured, cache):
    cache.write_text("a file where the folder should be")
    assert plan(TINY) == plan(TINY)
    assert measured.calls == ["rates", "sweep bfloat16"] * 2


def test_another_machine_measures_for_itself(monkeypatch, measured, cache):
    plan(TINY)
    monkeypatch.setattr(measure, "fingerprint", lambda _: {"processor": "another", "threads": 1})
    plan(TINY)
    assert measured.calls == ["rates", "sweep bfloat16"] * 2
    assert len(files(cache)) == 2


def test_a_busy_machines_measurement_is_believed_for_minutes_only(monkeypatch, measured):
    measured.steady = False
    now = 1_000_000.0
    monkeypatch.setattr(measure.time, "time", lambda: now)
    assert "on a busy machine" in plan(TINY).reasons["dtype"]
    now += 500
    assert "on a busy machine" in plan(TINY).reasons["dtype"]
    assert measured.calls == ["rates", "sweep bfloat16"]
    now += 200
    measured.steady = True
    assert "busy" not in plan(TINY).reasons["dtype"]
    assert measured.calls == ["rates", "sweep bfloat16"] * 2
    now += 10_000_000
    plan(TINY)
    assert len(measured.calls) == 4


def test_tries_that_differ_or_a_process_held_back_are_not_steady(monkeypatch):
    monkeypatch.setattr(measure, "_SHARE", 0.0)
    even = iter([1.0] * 1000)
    monkeypatch.setattr(measure, "_seconds", lambda *_: next(even))
    assert measure.measure_rates(8, 16, "cpu")[1]
    uneven = iter([1.0, 1.0, 1.0, 2.0, 2.0, 2.0] * 1000)
    monkeypatch.setattr(measure, "_seconds", lambda *_: next(uneven))
    rates, steady = measure.measure_rates(8, 16, "cpu")
    assert not steady
    assert rates["float32"] == pytest.approx(2 * 32 * 8 * 16 / 1e9)  # the least, not the median
    monkeypatch.setattr(measure, "_seconds", lambda *_: 1.0)
    monkeypatch.setattr(measure, "_SHARE", 2.0)
    monkeypatch.setattr(measure.sys, "platform", "linux")
    assert not measure.measure_rates(8, 16, "cpu")[1]


def test_wide_models_are_measured_at_a_width_that_is_cheap(measured):
    found = Measured("cpu", 16_384, 65_536)
    assert (found.width, found.feedforward) == (2048, 8192)


def test_the_sweep_stops_at_its_time_and_its_memory(monkeypatch):
    monkeypatch.setattr(measure, "_seconds", lambda *_: 0.2)
    assert list(measure.measure_sweep(8, 16, "float32", "cpu", 1.0, None)) == [512]
    monkeypatch.setattr(measure, "_seconds", lambda *_: 1e-6)
    assert list(measure.measure_sweep(8, 16, "float32", "cpu", 1.0, 4 * 4 * 2048 * 2 * 24)) == [
        512,
        1024,
        2048,
    ]
    rates = measure.measure_sweep(8, 16, "float32", "cpu", 1.0, None)
    assert list(rates) == [512, 1024, 2048, 4096, 8192, 16_384]
    assert rates[512] == pytest.approx(4 * 512 * 8 * 16 / 1e-6 / 1e9)


def test_a_sweep_that_would_take_too_long_is_not_begun(monkeypatch):
    def never(*_):
        raise AssertionError("measured")

    monkeypatch.setattr(measure, "_seconds", never)
    assert measure.measure_sweep(2048, 8192, "bfloat16", "cpu", 1.0, None) == {512: 1.0}


def test_a_dtype_that_is_only_emulated_is_measured_on_few_rows(monkeypatch):
    rows = []

    def seconds(run, device):
        rows.append(run().shape[0])
        return 1.0

    monkeypatch.setattr(measure, "_seconds", seconds)
    rates, _ = measure.measure_rates(8, 16, "cpu")
    assert set(rows) == {32}
    assert rates["bfloat16"] == pytest.approx(2 * 32 * 8 * 16 / 1e9)


def test_unknown_names_are_refused_with_the_nearest(measured):
    with pytest.raises(LexergyError, match=r"Unknown dtype 'bfloat'. Did you mean 'bfloat16'\?"):
        plan(TINY, dtype="bfloat")
    with pytest.raises(LexergyError, match=r"Unknown device 'cdua'. Did you mean 'cuda'\?"):
        plan(TINY, device="cdua")
    with pytest.raises(LexergyError, match='use "cpu" or "cuda"'):
        plan(TINY, device="meta")


def test_a_gpu_that_is_not_there_is_refused_with_what_to_do(measured):
    with pytest.raises(LexergyError, match=r"'cuda' was asked for, but .* finds no GPU. Use device=\"cpu\""):
        plan(TINY, device="cuda")


def test_auto_is_the_same_as_not_asking(measured):
    assert plan(TINY, device="auto", dtype="auto") == plan(TINY)


def test_a_plan_survives_a_manifest(measured):
    found = plan(TINY)
    assert Plan.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert set(found.reasons) == {"device", "dtype", "threads", "tokens"}


def test_agreement_is_a_mean_over_tokens():
    reference = torch.zeros(2, 50)
    assert agrees(reference, reference + 0.9 * AGREEMENT)
    assert not agrees(reference, reference - 1.1 * AGREEMENT)
    one_off = reference.clone()
    one_off[0, 0] = 1.0
    assert agrees(reference, one_off)
    assert agrees(reference, torch.zeros(2, 50, dtype=torch.bfloat16))
    assert not agrees(reference, torch.full((2, 50), torch.nan))
    forbidden = torch.tensor([-torch.inf, -1.0])
    assert agrees(forbidden, forbidden)
    assert not agrees(forbidden, torch.tensor([-5.0, -1.0]))
    with pytest.raises(LexergyError, match="same tokens"):
        agrees(reference, reference[:1])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            transformers.LlamaConfig(
                hidden_size=64,
                num_hidden_layers=3,
                intermediate_size=96,
                num_attention_heads=4,
                vocab_size=11,
            ),
            Shape(64, 3, 96, 4, 11),
        ),
        (transformers.GPT2Config(n_embd=64, n_layer=3, n_head=4, vocab_size=11), Shape(64, 3, 256, 4, 11)),
        (
            transformers.DistilBertConfig(dim=64, n_layers=3, n_heads=4, hidden_dim=96, vocab_size=11),
            Shape(64, 3, 96, 4, 11),
        ),
        (
            transformers.T5Config(d_model=64, num_layers=3, num_heads=4, d_ff=96, vocab_size=11),
            Shape(64, 3, 96, 4, 11),
        ),
        (
            transformers.OPTConfig(
                hidden_size=64, num_hidden_layers=3, num_attention_heads=4, ffn_dim=96, vocab_size=11
            ),
            Shape(64, 3, 96, 4, 11),
        ),
        (
            transformers.LlavaConfig(
                text_config=transformers.LlamaConfig(
                    hidden_size=64,
                    num_hidden_layers=3,
                    intermediate_size=96,
                    num_attention_heads=4,
                    vocab_size=11,
                )
            ),
            Shape(64, 3, 96, 4, 11),
        ),
        (object(), Shape(768, 12, 3072, 12, 32_000)),
    ],
    ids=["llama", "gpt2", "distilbert", "t5", "opt", "nested", "nothing stated"],
)
def test_shapes_of_many_families(config, expected):
    assert Shape.of(config) == expected


@pytest.mark.gpu
def test_a_gpu_is_found_and_measured(monkeypatch, tmp_path):
    monkeypatch.delenv("LEXERGY_PROBE", raising=False)
    monkeypatch.setenv("LEXERGY_CACHE", str(tmp_path))
    found = plan(TINY)
    assert found.device == "cuda"
    assert found.tokens >= 512
    assert set(found.rates) == {"float32", "bfloat16"}
    assert os.listdir(tmp_path / "probe")
