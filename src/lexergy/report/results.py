"""Results files: whatever is claimed is a JSON file, written by the command it names, and shown from there.

A row is a measurement (system, metric, value, its interval, how many independent things it rests on, what the
paper has) or, in a benchmark, a comparison (ours and the other's, their ratio, the floor below which nobody
gets). A number without its origin is no result: commit, dirty flag, device and versions are added when the
file is written.

*Example*

    result = Result(
        name="generation/table1-imdb",
        claim="JOINT BIT below the fine-tuned language model",
        source="generation paper, Table 1",
        command="lexergy evaluate generation/table1-imdb",
        seed=0,
        data={"name": "imdb", "test_windows": 160},
        compute={"seconds": 812.0, "size": "small"},
        rows=[Row("JOINT BIT", "perplexity_upper", 27.51, low=27.1, high=27.9, n=160, paper=12.16)],
        held=True,
        note="The interval of the difference lies below zero.",
    )
    write_result(Path("results/generation/table1-imdb.json"), result)
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lexergy.core.errors import LexergyError
from lexergy.core.files import read_json, write_json
from lexergy.core.provenance import provenance
from lexergy.report import markdown
from lexergy.report.document import Cell
from lexergy.report.records import decode, encode
from lexergy.report.words import number, shown

SIZES: Final = ("tiny", "small", "medium", "gpu", "paper")

Number = float | int

_COMPARED: Final = ("ours", "other", "other_name", "ratio", "dtype", "checkpoint")
"""What a benchmark's row must have, once it has any of it."""

_OF_BENCHMARKS: Final = (*_COMPARED, "floor", "share_of_floor", "peak_memory_ratio")


@dataclass(frozen=True)
class Row:
    """One number. `n`: how many independent things it rests on. `paper`: the number that the source gives.

    In a benchmark `value` is `ratio`, how many times better ours is than the other; `floor` is the best that
    this machine allows, `share_of_floor` how much of it ours reaches.
    """

    system: str
    metric: str
    value: Number
    low: Number | None = None
    high: Number | None = None
    n: int | None = None
    paper: Number | None = None
    ours: Number | None = None
    other: Number | None = None
    other_name: str | None = None
    ratio: Number | None = None
    floor: Number | None = None
    share_of_floor: Number | None = None
    peak_memory_ratio: Number | None = None
    dtype: str | None = None
    checkpoint: str | None = None

    @property
    def compared(self) -> bool:
        """Whether this is a benchmark's row."""
        return any(getattr(self, name) is not None for name in _OF_BENCHMARKS)

    def problem(self) -> str | None:
        """What is wrong with this row, if anything."""
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not math.isfinite(value):
                return f"its {each.name} is {number(value)}"
        if (self.low is None) != (self.high is None):
            return "it has one end of its interval but not the other"
        if self.low is not None and self.high is not None and not self.low <= self.value <= self.high:
            return f"its value {self.value} lies outside its interval, {self.low} to {self.high}"
        if self.n is not None and self.n < 1:
            return f"its n is {self.n}"
        lacking = [name for name in _COMPARED if getattr(self, name) is None]
        return f"it compares, but lacks {', '.join(lacking)}" if self.compared and lacking else None


@dataclass(frozen=True)
class Result:
    """One results file. `held`: whether the claim did. `note`: what was found, in two sentences.

    `commit`, `dirty`, `device` and `versions` are filled in by `write_result`.
    """

    name: str
    claim: str
    source: str
    command: str
    seed: int
    data: Mapping[str, Any]
    compute: Mapping[str, Any]
    rows: Sequence[Row]
    held: bool
    note: str
    commit: str = ""
    dirty: bool | None = None
    device: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def write_result(path: Path, result: Result, *, device: str | None = None) -> Result:
    """Check a result, add where it came from, write it. `device`: the torch device that made the numbers."""
    check(result)
    if path.with_suffix("").parts[-len(Path(result.name).parts) :] != Path(result.name).parts or path.suffix != ".json":
        raise LexergyError(f"The result {result.name!r} belongs in a file …/{result.name}.json; received {path}.")
    origin = provenance(result.seed, command=result.command, device=device)
    whole = dataclasses.replace(
        result,
        commit=origin.commit,
        dirty=origin.dirty,
        device=origin.device,
        versions={**origin.versions, **result.versions},
    )
    write_json(path, to_json(whole))
    return whole


def read_result(path: Path) -> Result:
    """Read a results file back; one that says less than it must is an error that names it."""
    result = decode(Result, read_json(path), str(path))
    check(result)
    if not (result.commit and result.device and result.versions):
        raise LexergyError(f"{path} does not say its commit, device and versions: write it with write_result.")
    return result


def to_json(result: Result) -> dict[str, Any]:
    """A plain mapping; a row leaves out the benchmark's fields that it does not have."""
    value = encode(result)
    order = (
        "name",
        "claim",
        "source",
        "command",
        "commit",
        "dirty",
        "seed",
        "device",
        "versions",
        "data",
        "compute",
        "rows",
    )
    rows = [
        {name: item for name, item in row.items() if item is not None or name not in _OF_BENCHMARKS}
        for row in value["rows"]
    ]
    return {
        **{name: value[name] for name in order},
        "rows": rows,
        "held": value["held"],
        "note": value["note"],
    }


def check(result: Result) -> None:
    """Refuse a result that does not say what it must."""
    for name in ("name", "claim", "source", "command", "note"):
        if not getattr(result, name).strip():
            raise LexergyError(f"The result {result.name!r} has an empty {name}.")
    if not result.rows:
        raise LexergyError(f"The result {result.name!r} has no rows.")
    if "name" not in result.data:
        raise LexergyError(f"The result {result.name!r} does not name its data: data needs a 'name'.")
    if "seconds" not in result.compute:
        raise LexergyError(f"The result {result.name!r} does not say what it cost: compute needs 'seconds'.")
    size = result.compute.get("size")
    if size is not None and size not in SIZES:
        raise LexergyError(f"The size in compute is one of {', '.join(SIZES)}; received {size!r}.")
    for i, row in enumerate(result.rows):
        if problem := row.problem():
            raise LexergyError(f"Row {i} of the result {result.name!r} ({row.system}, {row.metric}): {problem}.")


def results_table(folder: Path) -> str:
    """Every results file below a folder as Markdown, in the order of their names."""
    files = sorted(folder.rglob("*.json"))
    if not files:
        return "No result has been recorded yet.\n"
    return "\n\n".join(_shown(read_result(file)) for file in files) + "\n"


def _shown(result: Result) -> str:
    verdict = "The claim held." if result.held else "**The claim did not hold.**"
    commit = result.commit[:10] if " " not in result.commit else result.commit
    origin = {
        "source": markdown.line(result.source),
        "command": markdown.code(result.command),
        "data": _listed(result.data),
        "compute": _listed(result.compute),
        "device": markdown.line(result.device),
        "commit": f"{commit}{', with changes not committed' if result.dirty else ''}; seed {result.seed}",
        "versions": _listed(result.versions),
    }
    parts = [
        f"## {markdown.line(result.name)}",
        f"*{markdown.line(result.claim)}* {verdict} {markdown.line(result.note)}",
        _rows(result.rows),
        "\n".join(f"- {name}: {text}" for name, text in origin.items()),
    ]
    return "\n\n".join(parts)


def _rows(rows: Sequence[Row]) -> str:
    """The rows under the columns that at least one of them fills."""
    benchmark = any(row.compared for row in rows)
    filled = [each.name for each in dataclasses.fields(Row) if any(getattr(row, each.name) is not None for row in rows)]
    names = [name for name in filled if not (benchmark and name == "value")]
    heads = [name.replace("_", " ") for name in names]
    cells: list[list[Cell]] = [
        [getattr(row, name) if getattr(row, name) is not None else "" for name in names] for row in rows
    ]
    return markdown.table(heads, cells)


def _listed(values: Mapping[str, Any]) -> str:
    return markdown.line(
        ", ".join(
            f"{name.replace('_', ' ')} {shown(value) if _is_cell(value) else value}" for name, value in values.items()
        )
    )


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int | float)
