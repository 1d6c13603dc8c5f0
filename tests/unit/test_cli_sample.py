"""`lexergy sample`: what the Python calls draw, with energies and weights where there is an energy."""

import json

import pytest
from typer.testing import CliRunner

import lexergy as lx
from lexergy.cli import sample as verb
from lexergy.cli.main import app

LAW = ("-n", "6", "--max-new-tokens", "5", "--seed", "3")


def ask(*arguments, stdin=None):
    return CliRunner().invoke(app, ["sample", *map(str, arguments)], input=stdin, catch_exceptions=False)


def rows(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_joint_model_from_its_parts(tiny):
    (found,) = rows(ask("--lm", tiny.lm, "--energy", tiny.bag, "--prompt", "river", *LAW, "--top-k", "9", "--json"))
    joint = lx.Joint(lx.load_proposal(tiny.lm), lx.load_energy(tiny.bag), length=5)
    expected = joint.sample("river", n=6, max_new_tokens=5, seed=3, top_k=9)
    assert found["texts"] == expected.texts
    assert found["energy"] == expected.energy.tolist()
    assert found["weight"] == expected.weight.tolist()
    assert found["log_weight"] == expected.log_weight.tolist()
    assert (found["ess"], found["max_weight"]) == (expected.ess, expected.max_weight)
    assert (found["prompt"], found["law"], found["seed"]) == ("river", expected.law, 3)


def test_weights_relative_to_the_full_model(tiny):
    parts = ("--lm", tiny.lm, "--energy", tiny.bag, "--prompt", "river", *LAW, "--temperature", "0.7", "--json")
    (drawn,), (full,) = rows(ask(*parts)), rows(ask(*parts, "--base", "full"))
    assert drawn["texts"] == full["texts"]
    for i in range(6):
        difference = full["log_weight"][i] - drawn["log_weight"][i]
        assert difference == pytest.approx(full["log_p"][i] - full["log_q"][i])
        assert difference != 0


def test_a_saved_joint_model_keeps_its_length(tiny):
    (found,) = rows(ask("--joint", tiny.joint, "--prompt", "stone", "-n", "4", "--seed", "1", "--json"))
    assert found["texts"] == lx.Joint.from_pretrained(tiny.joint).sample("stone", n=4, seed=1).texts


def test_plain_draws_of_a_language_model(tiny):
    (found,) = rows(ask("--lm", tiny.lm, "--prompt", "river", *LAW, "--space", "fixed", "--json"))
    expected = lx.load_proposal(tiny.lm).sample("river", n=6, max_new_tokens=5, seed=3, space="fixed")
    assert found["texts"] == expected.texts
    assert found["log_q"] == found["log_p"] == expected.log_q.tolist()
    assert "energy" not in found
    assert found["law"] == str(expected.law)


def test_prompts_of_a_file_one_object_each_whatever_the_block(tiny, tmp_path, monkeypatch):
    path = tmp_path / "prompts.jsonl"
    prompts = ["river", "stone and light", "a"]
    path.write_text("".join(json.dumps({"prompt": one}) + "\n" for one in prompts), encoding="utf-8")
    whole = rows(ask("--joint", tiny.joint, path, "-n", "3", "--seed", "0", "--json"))
    assert [row["prompt"] for row in whole] == prompts
    monkeypatch.setattr(verb, "PROMPTS", 1)
    single = rows(ask("--joint", tiny.joint, path, "-n", "3", "--seed", "0", "--json"))
    assert all(map(same, single, whole))
    text = "".join(one + "\n" for one in prompts)
    assert rows(ask("--joint", tiny.joint, "-", "-n", "3", "--seed", "0", "--json", stdin=text)) == single


def test_a_seed_is_drawn_and_recorded(tiny):
    found = rows(ask("--joint", tiny.joint, "--prompt", "a", "--prompt", "b", "-n", "2", "--json"))
    assert found[0]["seed"] == found[1]["seed"]
    (again,) = rows(ask("--joint", tiny.joint, "--prompt", "a", "-n", "2", "--seed", found[0]["seed"], "--json"))
    assert same(again, found[0])


def test_a_person_reads_energy_weight_and_text(tiny):
    result = ask("--joint", tiny.joint, "--prompt", "river", "-n", "4", "--seed", "0")
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [len(line) for line in lines] == [3] * 4
    assert sum(float(weight) for _, weight, _ in lines) == pytest.approx(1, abs=1e-3)
    assert "4 draws, effective" in result.stderr
    assert "seed 0" in result.stderr


def test_texts_picked_by_weight(tiny):
    arguments = ("--joint", tiny.joint, "--prompt", "river", "-n", "8", "--seed", "0", "--pick", "3")
    (found,) = rows(ask(*arguments, "--json"))
    expected = lx.Joint.from_pretrained(tiny.joint).sample("river", n=8, seed=0).pick(3)
    assert found["picked"] == expected
    assert len(ask(*arguments).stdout.splitlines()) == 3


def same(one, other):
    """Equal draws; numbers as near as float32 has them, whose sums depend on the batch in the last bit."""
    assert one["texts"] == other["texts"]
    assert one["log_q"] == pytest.approx(other["log_q"], rel=1e-5)
    return one["energy"] == pytest.approx(other["energy"], rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "a"], "Say what writes: --lm LM"),
        (["--lm", "{lm}"], 'Give prompts as --prompt "…" or as a FILE'),
        (["--joint", "{joint}", "--energy", "{bag}", "--prompt", "a"], "leave --energy out"),
        (["--joint", "{joint}", "--space", "fixed", "--lm", "{lm}", "--prompt", "a"], "leave --lm out"),
        (["--lm", "{lm}", "--pick", "2", "--prompt", "a"], "plain draws have none"),
        (["--lm", "{lm}", "--kind", "lm", "--prompt", "a"], "--kind says what the checkpoint of --energy"),
        (["--joint", "{joint}", "--max-new-tokens", "7", "--prompt", "a"], "at most 6 tokens"),
        (["--lm", "{lm}", "--top-p", "0", "--prompt", "a"], "top_p"),
        (["--lm", "{lm}", "--temperature", "-1", "--prompt", "a"], "temperature"),
        (["--lm", "{lm}", "-n", "0", "--prompt", "a"], "n must be at least 1"),
        (["--lm", "{lm}", "--max-new-tokens", "0", "--prompt", "a"], "max_new_tokens must be at least 1"),
        (["--lm", "{lm}", "--energy", "{bag}", "--max-new-tokens", "0", "--prompt", "a"], "received 0"),
        (["--lm", "{lm}", "--device", "abacus", "--prompt", "a"], "abacus"),
        (["--lm", "{lm}", "--dtype", "float23", "--prompt", "a"], "float23"),
        (["--lm", "{bag}", "--prompt", "a"], "holds a saved energy"),
        (["--joint", "{joint}", "--space", "until_eos", "--prompt", "a"], "over the space 'fixed': leave --space out"),
        (["--joint", "{joint}", "--revision", "v2", "--prompt", "a"], "which has no revisions; received revision='v2'"),
        (["--joint", "no/such-joint", "--prompt", "a"], "is no saved joint model that this machine has"),
        (["--joint", "{bag}", "--prompt", "a"], "is no saved joint model"),
    ],
    ids=range(19),
)
def test_what_does_not_fit_together_is_said(tiny, arguments, message):
    result = ask(*(one.format(lm=tiny.lm, bag=tiny.bag, joint=tiny.joint) for one in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
