"""Frozen records to plain JSON values and back: decode(type(r), encode(r)) = r.

The record's own annotations are the schema: a missing, unknown or wrongly typed field is an error that names
where it is. A number that is not finite has no place in JSON and travels as {"float": "nan"}.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from lexergy.core.errors import LexergyError, unknown
from lexergy.core.unicode import writable

R = TypeVar("R")


def encode(value: Any) -> Any:
    """A record, or anything made of records, sequences, mappings and plain values, as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, str):
        return writable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {encode(str(name)): encode(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [encode(item) for item in value]
    raise LexergyError(
        f"A report or result holds plain values; received {type(value).__name__}. "
        "Convert it first: .item() for one number, .tolist() for many."
    )


def decode(kind: type[R], value: Any, where: str = "value") -> R:
    """The record of a type from its JSON values. `where` names the place in error messages."""
    return _decode(kind, value, where)


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, where)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in arguments if _fits(option, value)]
        return _decode(options[0], value, where) if options else _refuse(kind, value, where)
    if not _fits(kind, value):
        return _refuse(kind, value, where)
    if origin is not None and issubclass(origin, Mapping):
        return {name: _decode(arguments[1], item, f"{where}.{name}") for name, item in value.items()}
    if origin is not None and issubclass(origin, Sequence):
        return [_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(value)]
    if kind is float and isinstance(value, dict):
        return float(value["float"])
    if kind is Any:
        return _plain(value)
    return value


def _decode_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        return _refuse(kind, value, where)
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for name in value:
        if name not in fields:
            raise unknown(f"field in {where}:", name, fields)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise LexergyError(f"{where} lacks the field {name!r}. It has: {', '.join(value) or 'none'}.")
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _fits(kind: Any, value: Any) -> bool:
    """Whether a JSON value can stand for a type, judged by its outermost layer."""
    outer = typing.get_origin(kind) or kind
    if outer is Any:
        return True
    if outer in (None, type(None)):
        return value is None
    if outer is float:
        return (isinstance(value, float | int) and not isinstance(value, bool)) or _is_special(value)
    if outer is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if outer in (bool, str):
        return isinstance(value, outer)
    if dataclasses.is_dataclass(outer) or issubclass(outer, Mapping):
        return isinstance(value, dict)
    return isinstance(value, list)


def _is_special(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == ["float"] and value["float"] in ("nan", "inf", "-inf")


def _plain(value: Any) -> Any:
    """A value without a schema, its special numbers restored."""
    if _is_special(value):
        return float(value["float"])
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _refuse(kind: Any, value: Any, where: str) -> typing.NoReturn:
    expected = getattr(kind, "__name__", None) if isinstance(kind, type) else str(kind).replace("typing.", "")
    raise LexergyError(f"{where} should be {expected}; received {type(value).__name__} {str(value)[:60]!r}.")
