"""`lexergy doctor` says what was found and chosen, and why; as JSON it says nothing else."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import typer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import LlamaConfig, PreTrainedTokenizerFast
from typer.testing import CliRunner

from lexergy.cli.doctor import EXTRAS, doctor
from lexergy.core.errors import LexergyError
from lexergy.engine import measure
from lexergy.nets.transformer import preset
from lexergy.text.tokenisers import character_tokenizer

TEMPLATE = "{% for m in messages %}[bold]{{ m['content'] }}[/bold]{% endfor %}"


def ask(*arguments):
    app = typer.Typer()
    app.command("doctor")(doctor)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=True)


@pytest.fixture
def folder(tmp_path):
    """A model's folder, without weights: a configuration and a tokenizer that puts BOS first."""
    LlamaConfig(
        hidden_size=64,
        num_hidden_layers=3,
        intermediate_size=96,
        num_attention_heads=4,
        vocab_size=5,
        max_position_embeddings=77,
        eos_token_id=[1, 4],
    ).save_pretrained(tmp_path / "model")
    inner = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "?": 3, "<end>": 4}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="?")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_json_is_one_object_and_nothing_else():
    result = ask("--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert (found["device"], found["dtype"], found["tokens"], found["pinned"]) == (
        "cpu",
        "float32",
        4096,
        True,
    )
    assert found["reasons"]["dtype"] == "pinned by LEXERGY_PROBE=off"
    assert found["versions"]["torch"] == torch.__version__
    assert found["cores"] >= 1
    assert found["model"] is None
    assert set(found["extras"]) == set(EXTRAS)


def test_a_person_reads_each_choice_with_its_reason(monkeypatch, tmp_path):
    monkeypatch.delenv("LEXERGY_PROBE", raising=False)
    monkeypatch.setenv("LEXERGY_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(measure, "measure_rates", lambda *_: ({"float32": 100.0, "bfloat16": 431.0}, True))
    monkeypatch.setattr(measure, "measure_sweep", lambda *_: {512: 431.0})
    monkeypatch.setenv("COLUMNS", "300")
    said = ask().output
    assert "bfloat16 measured 4.3 times as fast as float32 (431 against 100 GFLOP/s)" in said
    assert "no GPU that this PyTorch can use was found" in said
    assert "the smallest within 5 % of the best rate (431 of 431 GFLOP/s)" in said
    assert str(tmp_path) in said


def test_what_is_remembered_is_measured_again_only_when_asked(monkeypatch, tmp_path):
    monkeypatch.delenv("LEXERGY_PROBE", raising=False)
    monkeypatch.setenv("LEXERGY_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rate = iter([100.0, 200.0])

    def rates(width, feedforward, device):
        now = next(rate)
        return {"float32": now, "bfloat16": now}, True

    monkeypatch.setattr(measure, "measure_rates", rates)
    monkeypatch.setattr(measure, "measure_sweep", lambda *_: {512: 431.0})
    read = [json.loads(ask("--json", *more).stdout)["rates"]["float32"] for more in ([], [], ["--fresh"], [])]
    assert read == [100.0, 100.0, 200.0, 200.0]


def test_a_model_shows_its_shape_and_its_tokenizer(folder):
    model = json.loads(ask("--model", str(folder), "--json").stdout)["model"]
    assert model["shape"] == {"width": 64, "layers": 3, "feedforward": 96, "heads": 4, "vocabulary": 5}
    assert (model["family"], model["longest"], model["eos"]) == ("llama", 77, [1, 4])
    tokenizer = model["tokenizer"]
    assert tokenizer["bos"] == {"token": "<s>", "id": 0}
    assert tokenizer["eos"] == {"token": "</s>", "id": 1}
    assert tokenizer["pad"] == {"token": None, "id": None}
    assert (tokenizer["begins_with_bos"], tokenizer["ends_with_eos"]) == (True, False)
    assert tokenizer["template"] == TEMPLATE
    assert tokenizer["words"] == 5


def test_a_template_is_printed_as_it_stands(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    said = ask("--model", str(folder)).output
    assert TEMPLATE in said
    assert "put before a text" in said


def test_a_model_without_a_tokenizer(folder):
    for file in folder.glob("*token*"):
        file.unlink()
    assert json.loads(ask("--model", str(folder), "--json").stdout)["model"]["tokenizer"] is None
    assert "none that could be read" in ask("--model", str(folder)).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "float23"], "Unknown dtype 'float23'. Did you mean 'float32'?"),
        (["--device", "gpu"], "Unknown device 'gpu'."),
        (["--model", "{folder}/config.json"], "is a file"),
        (["--model", "{folder}/nothing"], "Give a folder that save_pretrained wrote"),
        (["--model", "no-such-owner/no-such-model"], "There is no model at 'no-such-owner/no-such-model'"),
    ],
    ids=["dtype", "device", "file", "folder", "hub"],
)
def test_mistakes_are_the_users_and_name_the_remedy(folder, arguments, message):
    result = ask("--json", *(argument.format(folder=folder) for argument in arguments))
    assert isinstance(result.exception, LexergyError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.stdout == ""


def test_extras_are_those_of_the_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    in_use = {name for name, packages in project["optional-dependencies"].items() if packages}
    assert set(EXTRAS) == in_use - {"docs", "dev"}


def test_an_absent_extra_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(EXTRAS, "report", (("a_module_that_is_not_there", "json"), "reports"))
    monkeypatch.setenv("COLUMNS", "300")
    found = json.loads(ask("--json").stdout)["extras"]["report"]
    assert found == {"present": False, "absent": ["a_module_that_is_not_there"], "adds": "reports"}
    assert "pip install 'lexergy[report]'" in ask().output


def test_listing_the_command_loads_no_torch():
    code = "import sys, lexergy.cli.doctor; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_transformer_of_ours_and_its_tokenizer_are_read(tmp_path):
    tokenizer = character_tokenizer("abc")
    tokenizer.save_pretrained(tmp_path)
    preset("tiny", vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id).save_pretrained(tmp_path)
    result = ask("--json", "--model", str(tmp_path))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["model"]
    assert (found["family"], found["shape"]["width"], found["eos"]) == ("lexergy", 128, [tokenizer.eos_token_id])
    assert found["tokenizer"]["words"] == len(tokenizer)
