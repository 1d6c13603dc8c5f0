"""A recipe is a run as a document: TOML → frozen dataclasses. An unknown key is an error that names it and the nearest.

*Layers*, later over earlier: the file, its `[sizes.NAME]` table where `size = "NAME"` was asked for, each
`--set a.b=1`.
"""

import dataclasses
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.types import Space
from lexergy.text.split import PARTS


@dataclass(frozen=True)
class Corpus:
    """Where text comes from, and how its groups are parted (by a hash, so that runs agree)."""

    place: str = "docstrings"
    limit_words: int | None = None
    parts: dict[str, float] = field(default_factory=lambda: dict(PARTS))


@dataclass(frozen=True)
class Tokenizer:
    """The vocabulary trained on the language model's part."""

    vocabulary: int = 8192


@dataclass(frozen=True)
class LanguageModel:
    """The language model to correct. `start`: a checkpoint taken as it is; None: one is trained."""

    start: str | None = None
    size: str = "small"
    steps: int = 2000
    batch: int = 16
    length: int = 256
    learning_rate: float = 1e-3
    warmup: int = 100
    validate_every: int = 0
    patience: int | None = None


@dataclass(frozen=True)
class Mining:
    """The windows, and what the language model writes instead."""

    per_prefix: int = 2
    prefix: int = 120
    length: int = 40
    space: Space = "until_eos"
    limit: int | None = None


@dataclass(frozen=True)
class EnergyModel:
    """The energy. `start`: "lm" for the language model's own trunk, "bag", a checkpoint, or None for a fresh one."""

    start: str | None = "lm"
    size: str = "small"
    causal: bool | None = None
    pooling: str = "mean"
    dropout: float | None = None
    negatives: int = 1
    form: str = "mean"
    epochs: float = 2.0
    batch: int = 32
    learning_rate: float | None = None
    patience: int | None = 4
    fit_scale: bool = True


@dataclass(frozen=True)
class Evaluation:
    """What is measured on the test part, and what is shown."""

    n: int = 512
    windows: int = 200
    show: int = 4
    show_n: int = 64


@dataclass(frozen=True)
class Recipe:
    """One run."""

    name: str
    title: str
    claim: str
    source: str
    seed: int = 0
    size: str = "tiny"
    pinned: bool = False
    """Run in float32 on one thread with a fixed budget, so that every machine of a kind gives the same numbers."""
    corpus: Corpus = field(default_factory=Corpus)
    tokenizer: Tokenizer = field(default_factory=Tokenizer)
    lm: LanguageModel = field(default_factory=LanguageModel)
    mine: Mining = field(default_factory=Mining)
    energy: EnergyModel = field(default_factory=EnergyModel)
    evaluate: Evaluation = field(default_factory=Evaluation)

    def to_json(self) -> dict[str, Any]:
        """A plain mapping."""
        return dataclasses.asdict(self)


def recipes() -> dict[str, str]:
    """The packaged recipes by name, each with the first line of its header."""
    root = resources.files("lexergy") / "recipes"
    found = {}
    for folder in sorted(root.iterdir(), key=lambda entry: entry.name):
        if folder.is_dir():
            for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
                if file.name.endswith(".toml"):
                    first = file.read_text(encoding="utf-8").split("\n", 1)[0]
                    found[f"{folder.name}/{file.name.removesuffix('.toml')}"] = first.lstrip("# ").strip()
    return found


def read_recipe(name: str | Path, set: Mapping[str, Any] | Iterable[str] | None = None) -> Recipe:
    """A packaged recipe by name, or a TOML file, with changes ({"lm.steps": 100}, or ["lm.steps=100"])."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise LexergyError(f"There is no recipe file {path}.")
        try:
            text, called = path.read_text(encoding="utf-8"), path.stem
        except UnicodeDecodeError as error:
            raise LexergyError(f"{path} is not UTF-8 (byte {error.start}: {error.reason}). Convert it.") from error
    else:
        if str(name) not in recipes():
            raise unknown("recipe", str(name), recipes())
        text = (resources.files("lexergy") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        called = str(name)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise LexergyError(f"{name} is not valid TOML: {error}.") from error
    changes = _changes(set)
    sizes = content.pop("sizes", {})
    if not isinstance(sizes, Mapping) or not all(isinstance(table, Mapping) for table in sizes.values()):
        raise LexergyError(f"Recipe {called}: sizes is a table of tables, [sizes.small] say.")
    own = content.pop("size", Recipe.size)
    size = changes.pop("size", own)
    if str(size) in sizes:
        content = _merged(content, sizes[str(size)])
    elif size != own:  # the recipe's own size may be the file as it stands
        raise unknown(f"size of {called}", str(size), [str(own), *sizes])
    content = {**content, "size": size}
    for key, value in changes.items():
        content = _merged(content, _nested(key, value))
    return _build(Recipe, {"name": called, **content}, called)


def _changes(given: Mapping[str, Any] | Iterable[str] | None) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    found = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals:
            raise LexergyError(f"--set takes key=value; received {item!r}.")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = value  # a bare word is a string
    return found


def _nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """One table over another, table by table."""
    out = dict(under)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(out.get(key), Mapping)
        out[key] = _merged(out[key], value) if both else value
    return out


def _build(kind: Any, content: Mapping[str, Any], where: str) -> Any:
    """A dataclass from a table, each value of the type its field says."""
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in dataclasses.fields(kind)}
    for key in content:
        if key not in known:
            raise unknown(f"key in recipe {where}:", key, known)
    missing = [
        n for n, f in known.items() if n not in content and f.default is f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise LexergyError(f"Recipe {where} lacks {', '.join(missing)}.")
    values = {key: _value(hints[key], value, f"{where}: {key}") for key, value in content.items()}
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise LexergyError(f"{where} is a table of settings; received {value!r}.")
        return _build(hint, value, where)
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value in (None, "none") and type(None) in options:
            return None
        hint = next(option for option in options if option is not type(None))
        return _value(hint, value, where)
    if origin is typing.Literal:
        if value not in options:
            raise unknown(f"value of {where}:", str(value), [str(option) for option in options])
        return value
    if origin is dict:
        if not isinstance(value, Mapping):
            raise LexergyError(f"{where} is a table; received {value!r}.")
        return {key: _value(options[1], item, f"{where}: {key}") for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise LexergyError(f"{where} takes {hint.__name__}; received {value!r}.")
    return value
