"""The command line as a whole: its verbs, its common options, its exit codes, what it loads."""

import errno
import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import lexergy
from lexergy.cli import main, output
from lexergy.cli.outcome import outcome
from lexergy.core.errors import LexergyError
from lexergy.training.energy import train_energy
from lexergy.training.mine import mine

ENVIRONMENT = {**os.environ, "LEXERGY_PROBE": "off", "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "latin-1"}


def ask(*arguments, stdin=None):
    return CliRunner().invoke(main.app, [str(one) for one in arguments], input=stdin, catch_exceptions=False)


def process(*arguments, code="from lexergy.cli.main import run; run()", **options):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False, timeout=120, **options)


def test_help_and_listing_load_no_torch():
    code = (
        "import sys, lexergy, lexergy.cli.main\n"
        "from typer.testing import CliRunner\n"
        "for words in (['--help'], [], ['score', '--help'], ['list', 'energies'], ['cite', 'nce']):\n"
        "    assert CliRunner().invoke(lexergy.cli.main.app, words).exit_code == 0\n"
        "heavy = {'torch', 'transformers', 'numpy', 'jinja2', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(str(sorted(heavy)) if heavy else 0)"
    )
    done = process(code=code)
    assert done.returncode == 0, done.stderr.decode()


def test_every_verb_is_named_in_the_help():
    for shown in (ask("--help"), ask()):
        assert shown.exit_code == 0
        assert all(verb in shown.output for verb in main.VERBS)


def test_version():
    assert ask("--version").output.strip() == f"lexergy {lexergy.__version__}"


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_verb_takes_the_common_options(verb):
    command = typer.main.get_command(main.app).commands[verb]  # type: ignore[attr-defined]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--seed", "--device", "--dtype"} <= options


def test_options_are_the_arguments_of_the_python_call():
    for verb, call, own in (
        ("mine", mine, {"lm", "device", "dtype", "revision", "attn_implementation", "json"}),
        ("train", train_energy, {"recipe", "set", "mined", "json"}),
    ):
        taken = set(inspect.signature(main.VERBS[verb]).parameters) - own
        wanted = set(inspect.signature(call).parameters) - {"data", "lm", "options", "device", "dtype"}
        assert taken - {"device", "dtype"} == wanted, verb


def test_an_option_without_use_changes_nothing():
    plainly = ask("list", "energies", "--json")
    assert ask("list", "energies", "--json", "--seed", 3, "--device", "cpu").stdout == plainly.stdout


def test_exit_code_0_writes_utf8_whatever_the_locale():
    done = process("cite", "nce")
    assert done.returncode == 0
    assert "Hyvärinen" in done.stdout.decode("utf-8")
    assert done.stderr == b""


def test_exit_code_2_is_one_line_that_says_what_to_do():
    done = process("list", "energie")
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode() == "lexergy list: Unknown room 'energie'. Did you mean 'energies'?\n"


def test_exit_code_1_is_ours():
    code = (
        "from lexergy import catalog\nfrom lexergy.cli.main import run\ncatalog.available = lambda room: 1 / 0\nrun()"
    )
    done = process("list", "energies", code=code)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert done.stdout == b""
    assert "ZeroDivisionError" in said
    assert "this is a defect of lexergy" in said


def test_a_reader_who_has_read_enough_is_no_error():
    code = (
        "from lexergy import catalog\n"
        "from lexergy.cli.main import run\n"
        "catalog.available = lambda room: {str(i): 'x' * 100 for i in range(10_000)}\n"
        "run()"
    )
    command = [sys.executable, "-c", code, "list", "energies"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(1) == b"0"
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_to_a_full_disk_is_said_in_one_line():
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-c", "from lexergy.cli.main import run; run()", "cite", "nce"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        f"lexergy cite: {os.strerror(errno.ENOSPC)}: free some space, or write elsewhere."
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scor"], "lexergy: No such command 'scor'. Did you mean 'score'"),
        (["--nope"], "No such option: --nope. See lexergy --help."),
        (["score", "--nope"], "No such option: --nope"),
        (["score", "--text", "a"], "Missing option '--energy'"),
        (["sample", "--lm", "x", "--prompt", "a", "--base", "half"], "Invalid value for '--base'"),
        (["sample", "--lm", "x", "--prompt", "a", "-n", "many"], "Invalid value for '-n'"),
        (["list", "recipe"], "Unknown room 'recipe'. Did you mean 'recipes'?"),
        (["cite", "electrik"], "Unknown method 'electrik'. Did you mean 'electric'?"),
    ],
    ids=["verb", "option", "its-option", "missing", "choice", "number", "room", "method"],
)
def test_wrong_words_are_one_line_and_exit_code_2(arguments, message):
    result = ask(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def interrupt(verb):
    with pytest.raises(typer.Exit) as stopped, outcome(lambda: f"lexergy {verb}"):
        raise KeyboardInterrupt
    return stopped.value.exit_code


def test_stopped_by_hand_says_how_to_go_on(capsys):
    assert [interrupt("train"), interrupt("score")] == [130, 130]
    assert capsys.readouterr().err.splitlines() == [
        "lexergy train: stopped; run the same command with --resume to go on.",
        "lexergy score: stopped.",
    ]


def test_what_the_machine_refuses_is_not_our_defect(capsys):
    with pytest.raises(typer.Exit) as stopped, outcome(lambda: "lexergy mine"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "there")
    assert stopped.value.exit_code == 2
    assert "(there): free some space" in capsys.readouterr().err


def test_other_errors_are_not_swallowed():
    for error in (ValueError("x"), OSError(errno.EBADF, "x")):
        with pytest.raises(type(error)), outcome(lambda: "lexergy"):
            raise error


def test_a_message_of_several_lines_becomes_one(capsys):
    with pytest.raises(typer.Exit), outcome(lambda: "lexergy"):
        raise LexergyError("Wrong.\n\n  Do this.")
    assert capsys.readouterr().err == "lexergy: Wrong. Do this.\n"


def test_json_is_strict():
    values = {"a": float("inf"), "b": [float("-inf"), float("nan"), 0.5], "c": None, "d": "half \ud83d", "e": True}
    shown = json.dumps(output.plain(values), allow_nan=False)
    assert json.loads(shown) == {
        "a": "Infinity",
        "b": ["-Infinity", "NaN", 0.5],
        "c": None,
        "d": "half �",
        "e": True,
    }
    assert float("Infinity") == float("inf")


def test_a_text_cannot_command_the_terminal():
    assert output.one_line("a\tb\nc\x1b[31m\u2028é") == "a\\tb\\nc\\x1b[31m\\u2028é"


def test_a_text_is_cut_to_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert len(output.one_line("a" * 500)) == 500
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert output.one_line("a" * 500, used=10) == "a" * 39 + "…"
    assert output.one_line("short") == "short"


def test_a_stream_is_counted_now_and_then(monkeypatch, capsys):
    now = iter([0.0, 1.0, 4.0, 5.0, 15.0])
    monkeypatch.setattr(output.time, "monotonic", lambda: next(now))
    counted = output.Counted("texts")
    for _ in range(4):
        counted.add(10)
    assert capsys.readouterr().err.splitlines() == ["20 texts  5 a second", "40 texts  2.67 a second"]
