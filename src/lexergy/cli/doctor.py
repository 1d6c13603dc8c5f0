"""`lexergy doctor`: what was found on this machine, what was chosen, and why; with --model, what it says."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

EXTRAS = {
    "report": (("jinja2", "matplotlib"), "HTML reports with plots"),
    "log": (("tensorboard",), "tensorboard logs of training"),
}
"""An extra's modules, and what installing it adds."""


def doctor(
    model: Annotated[
        str | None,
        typer.Option(help="A model's folder or Hub id: plan for its shape, and show its tokenizer."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1; default: what is best.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 or bfloat16; default: what is best.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again, whatever was remembered.")] = False,
) -> None:
    """Say what this machine does best, what was chosen, and why."""
    # torch and transformers take seconds to import, and the other commands load this module to be listed.
    from lexergy.engine.probe import Shape, plan

    described, config = _model(model) if model is not None else (None, None)
    chosen = plan(Shape.of(config) if config is not None else None, device, dtype, fresh)
    found = {**chosen.to_json(), **_machine(chosen.device), "extras": _extras(), "model": described}
    if json:
        from json import dumps

        typer.echo(dumps(found, ensure_ascii=False))
    else:
        _show(found)


def _machine(device: str) -> dict[str, Any]:
    import platform

    import torch

    from lexergy.core.cache import cache_folder
    from lexergy.engine.machine import cores, free_memory, processor

    return {
        "processor": processor()[0],
        "cores": cores(),
        "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "free_memory": free_memory(device),
        "cache": str(cache_folder()),
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str | None]:
    names = ("lexergy", "torch", "transformers", "tokenizers", "safetensors", "accelerate", "numpy")
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    """None where a package runs from its source tree and was never installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _extras() -> dict[str, dict[str, Any]]:
    from importlib.util import find_spec

    absent = {extra: [name for name in modules if find_spec(name) is None] for extra, (modules, _) in EXTRAS.items()}
    return {
        extra: {"present": not absent[extra], "absent": absent[extra], "adds": adds}
        for extra, (_, adds) in EXTRAS.items()
    }


def _model(place: str) -> tuple[dict[str, Any], Any]:
    """What a model and its tokenizer say of themselves, and the configuration; no weight is read."""
    from pathlib import Path

    from lexergy.core.errors import LexergyError
    from lexergy.engine.load import configuration
    from lexergy.engine.probe import Shape

    if Path(place).is_file():
        raise LexergyError(f"{place} is a file: give --model a model's folder, or its Hub id.")
    config = configuration(place)
    eos = getattr(config, "eos_token_id", None)
    described = {
        "name": place,
        "family": config.model_type,
        "shape": asdict(Shape.of(config)),
        "dtype": str(config.dtype).removeprefix("torch.") if config.dtype is not None else None,
        "longest": getattr(config, "max_position_embeddings", None),
        "eos": eos if isinstance(eos, list) or eos is None else [eos],
        "tokenizer": _tokenizer(place),
    }
    return described, config


def _tokenizer(place: str) -> dict[str, Any] | None:
    """What decides which ids a text becomes; None where the folder holds no tokenizer."""
    from lexergy.core.errors import LexergyError
    from lexergy.engine.load import quiet
    from lexergy.text.tokenisers import load_tokenizer

    try:
        with quiet():
            tokenizer = load_tokenizer(place)
    except LexergyError:
        return None
    ids = tokenizer("a")["input_ids"]
    template = tokenizer.chat_template
    return {
        "kind": type(tokenizer).__name__,
        "words": len(tokenizer),
        **{
            name: {"token": getattr(tokenizer, f"{name}_token"), "id": getattr(tokenizer, f"{name}_token_id")}
            for name in ("bos", "eos", "pad")
        },
        # What bos="auto" does with this model.
        "begins_with_bos": bool(ids) and tokenizer.bos_token_id is not None and ids[0] == tokenizer.bos_token_id,
        "ends_with_eos": bool(ids) and tokenizer.eos_token_id is not None and ids[-1] == tokenizer.eos_token_id,
        "template": template if isinstance(template, str | dict) else None,
    }


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()

    def rows(title: str, lines: list[tuple[str, Any, str]]) -> None:
        table = Table(title=title, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, value, reason in lines:
            # Text, not markup: a template may hold square brackets, which rich would take for styles.
            table.add_row(Text(name, "bold"), Text(str(value)), Text(reason, "dim"))
        console.print(table)
        console.print()

    reasons = found["reasons"]
    rows(
        "Chosen",
        [
            ("device", found["device"], reasons["device"]),
            ("dtype", found["dtype"], reasons["dtype"]),
            ("tokens", found["tokens"], reasons["tokens"]),
            ("threads", found["threads"], reasons["threads"]),
        ],
    )
    free = found["free_memory"]
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in found["rates"].items()) or "not measured"
    rows(
        "Found",
        [
            ("processor", found["processor"], f"{found['cores']} cores may be used"),
            ("GPU", found["gpu"] or "none in use", ""),
            ("GFLOP/s", rates, "a matrix product, by dtype"),
            (
                "free memory",
                "not known" if free is None else f"{free / 1e9:.1f} GB",
                "now, on the chosen device",
            ),
            ("cache", found["cache"], "measurements are kept here; --fresh measures again"),
            *((name, number or "not installed", "") for name, number in found["versions"].items()),
        ],
    )
    rows(
        "Extras",
        [
            (name, "present" if extra["present"] else "absent", _hint(name, extra))
            for name, extra in found["extras"].items()
        ],
    )
    if found["model"] is not None:
        rows("Model", _model_rows(found["model"]))


def _hint(name: str, extra: dict[str, Any]) -> str:
    if extra["present"]:
        return extra["adds"]
    return f"{extra['adds']}; pip install 'lexergy[{name}]' adds {', '.join(extra['absent'])}"


def _model_rows(model: dict[str, Any]) -> list[tuple[str, Any, str]]:
    shape = ", ".join(f"{name} {size}" for name, size in model["shape"].items())
    lines = [
        ("model", model["name"], model["family"]),
        ("shape", shape, f"saved in {model['dtype'] or 'an unstated dtype'}"),
        ("longest text", model["longest"] or "not stated", "tokens"),
        ("ends at", model["eos"] or "not stated", "ids, by the model's configuration"),
    ]
    tokenizer = model["tokenizer"]
    if tokenizer is None:
        return [*lines, ("tokenizer", "none that could be read", "")]
    lines.append(("tokenizer", tokenizer["kind"], f"{tokenizer['words']} words"))
    habits = {
        "bos": "put before a text" if tokenizer["begins_with_bos"] else "not put before a text",
        "eos": "put after a text" if tokenizer["ends_with_eos"] else "not put after a text",
        "pad": "",
    }
    for name, habit in habits.items():
        token = tokenizer[name]
        lines.append((name, "none" if token["id"] is None else f"{token['token']!r} ({token['id']})", habit))
    template = tokenizer["template"]
    lines.append(("template", template or "none", "used for chats and by reward models" if template else ""))
    return lines
