"""N-best lists: for each utterance the hypotheses of a recogniser, translator or reader, with every score
they came with.

A higher score is likelier (an energy is the other way round). The format of a file is told by its content:
JSON lines or one JSON list `{id, ref, nbest: [{text, score}]}`, the JSON of ESPnet `{id: {ref, hyp_1: {text,
score}}}`, tables `id<TAB>score<TAB>text`, and the lines of fairseq's generate. *Relations:* `write_nbest`
then `read_nbest` gives the same lists.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexergy.core.errors import LexergyError
from lexergy.core.files import write_text
from lexergy.text.lines import checked, read_text_lines

_FAIRSEQ = re.compile(r"^([STHDPAEI])-(\d+)\t")
_LISTS = ("nbest", "hyps", "hypotheses")
_REFERENCES = ("ref", "reference")
_IDENTITIES = ("id", "utt", "utterance", "utt_id")
Numbered = list[tuple[int, str]]


@dataclass(frozen=True)
class Hypothesis:
    """A text and its component scores by name; a single score is named "score"."""

    text: str
    scores: dict[str, float]


@dataclass(frozen=True)
class Utterance:
    """One list, in the order of the file. `reference`: what was said, `source`: what is translated, where
    known.
    """

    id: str
    reference: str | None
    hypotheses: tuple[Hypothesis, ...]
    source: str | None = None


@dataclass(frozen=True)
class NBest:
    """The lists of a file. Ids may repeat (one utterance, two conditions)."""

    utterances: tuple[Utterance, ...]

    def __len__(self) -> int:
        return len(self.utterances)

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self.utterances)


def read_nbest(path: str | Path) -> NBest:
    """Read n-best lists in any of the formats above; .gz and .xz as they are."""
    lines = [(number, line) for number, line in read_text_lines(path) if line.strip()]
    if not lines:
        raise LexergyError(f"{path} is empty: it holds no n-best list.")
    first = lines[0][1].lstrip()
    if first.startswith(("{", "[")):
        utterances = _from_json(lines, str(path))
    elif any(_FAIRSEQ.match(line) for _, line in lines):
        utterances = _from_fairseq(lines, str(path))
    elif "\t" in first:
        utterances = _from_table(lines, str(path))
    else:
        raise LexergyError(
            f"{path} is no n-best list that is known: it starts with {first[:60]!r}. Known are JSON, JSON "
            "lines, tables with tabs (id, score, text) and the lines of fairseq's generate (H-0, T-0)."
        )
    if not utterances:
        raise LexergyError(f"{path} holds no utterance.")
    return NBest(tuple(utterances))


def write_nbest(path: str | Path, nbest: NBest) -> None:
    """Write n-best lists: .jsonl one utterance a line, .json in the form of ESPnet (which needs ids that
    differ).
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        rows = [_row(utterance) for utterance in nbest]
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    elif path.suffix == ".json":
        if len({utterance.id for utterance in nbest}) < len(nbest):
            raise LexergyError("Some utterances share an id, which ESPnet's JSON cannot hold. Write a .jsonl.")
        whole = {utterance.id: _espnet(utterance) for utterance in nbest}
        write_text(path, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    else:
        raise LexergyError(f"N-best lists are written as .jsonl or .json; received {path.name!r}.")


def _row(utterance: Utterance) -> dict[str, Any]:
    row: dict[str, Any] = {"id": utterance.id}
    if utterance.reference is not None:
        row["ref"] = utterance.reference
    if utterance.source is not None:
        row["source"] = utterance.source
    return row | {"nbest": [{"text": one.text, "scores": one.scores} for one in utterance.hypotheses]}


def _espnet(utterance: Utterance) -> dict[str, Any]:
    row = _row(utterance)
    hypotheses = {f"hyp_{i}": one for i, one in enumerate(row.pop("nbest"), start=1)}
    return {key: value for key, value in row.items() if key != "id"} | hypotheses


def _from_json(lines: Numbered, name: str) -> list[Utterance]:
    rows = _json_lines(lines, name)
    if rows is None:
        try:
            whole = json.loads("\n".join(line for _, line in lines))
        except json.JSONDecodeError as error:
            raise LexergyError(f"{name} is not valid JSON ({error}). It may have been cut off.") from error
        if isinstance(whole, list):
            rows = [(f"{name}, item {i}", item) for i, item in enumerate(whole, start=1)]
        elif _is_list_of_hypotheses(whole):
            rows = [(name, whole)]
        else:
            rows = [(f"{name}, utterance {key!r}", _with_id(key, item)) for key, item in whole.items()]
    return [_utterance(row, where) for where, row in rows]


def _json_lines(lines: Numbered, name: str) -> list[tuple[str, Any]] | None:
    """One row a line, or None where the first line is not a row by itself."""
    try:
        first = json.loads(lines[0][1])
    except json.JSONDecodeError:
        return None  # JSON over several lines
    if not _is_list_of_hypotheses(first) and len(lines) == 1:
        return None
    rows: list[tuple[str, Any]] = []
    for number, line in lines:
        try:
            rows.append((f"{name}, line {number}", json.loads(line)))
        except json.JSONDecodeError as error:
            raise LexergyError(f"{name}, line {number} is not JSON ({error}). It may have been cut off.") from error
    return rows


def _is_list_of_hypotheses(row: Any) -> bool:
    return isinstance(row, dict) and any(isinstance(row.get(key), list) for key in _LISTS)


def _with_id(key: str, item: Any) -> Any:
    """An utterance of ESPnet's JSON as a row: its hypotheses are named hyp_1, hyp_2 …, the best first."""
    if not isinstance(item, dict):
        return item
    numbered = sorted(
        (int(name.removeprefix("hyp_")), value) for name, value in item.items() if re.fullmatch(r"hyp_\d+", name)
    )
    rest = {name: value for name, value in item.items() if not name.startswith("hyp_")}
    return {"id": key, "nbest": [value for _, value in numbered], **rest}


def _utterance(row: Any, where: str) -> Utterance:
    key = next((key for key in _LISTS if isinstance(row, dict) and isinstance(row.get(key), list)), None)
    if key is None:
        found = ", ".join(map(repr, row)) if isinstance(row, dict) else type(row).__name__
        raise LexergyError(
            f"{where} has no list of hypotheses (nbest, or hyps); received {found}. An utterance is "
            '{"id": …, "ref": …, "nbest": [{"text": …, "score": …}]}.'
        )
    if not row[key]:
        raise LexergyError(f"{where} has no hypothesis: leave the utterance out, or give an empty text with a score.")
    identity = next((row[name] for name in _IDENTITIES if row.get(name) is not None), None)
    if identity is None:
        raise LexergyError(f"{where} has no id; its fields: {', '.join(map(repr, row))}.")
    hypotheses = [_hypothesis(item, f"{where}, hypothesis {i}") for i, item in enumerate(row[key], start=1)]
    reference = next((row[name] for name in _REFERENCES if isinstance(row.get(name), str)), None)
    source = row["source"] if isinstance(row.get("source"), str) else None
    return Utterance(str(identity), reference, tuple(hypotheses), source)


def _hypothesis(item: Any, where: str) -> Hypothesis:
    if not isinstance(item, dict) or not isinstance(item.get("text"), str):
        found = ", ".join(map(repr, item)) if isinstance(item, dict) else type(item).__name__
        raise LexergyError(f'{where} needs a "text"; received {found}.')
    scores: dict[str, float] = {}
    # Other numbers stay behind: a word error rate beside the scores is no score, and must never be tuned on.
    given = {key: value for key, value in item.items() if key == "score" or key.endswith("_score")}
    inner = item.get("scores", {})
    if not isinstance(inner, Mapping):
        raise LexergyError(f'{where}: "scores" must be an object of numbers; received {type(inner).__name__}.')
    for key, value in {**given, **inner}.items():
        scores[str(key)] = _number(value, f"{where}, {key}")
    if not scores:
        raise LexergyError(f'{where} has no "score" and no "scores"; its fields: {", ".join(map(repr, item))}.')
    return Hypothesis(checked(item["text"], where), scores)


def _number(value: Any, where: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise LexergyError(f"{where} is not a number: received {str(value)[:40]!r}.") from error
    if not math.isfinite(number):
        raise LexergyError(f"{where} is {number}: a score is a finite number.")
    return number


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _from_table(lines: Numbered, name: str) -> list[Utterance]:
    columns, body = _columns(lines, name)
    rows: dict[str, list[Hypothesis]] = {}
    references: dict[str, str] = {}
    for number, line in body:
        fields = line.split("\t")
        where = f"{name}, line {number}"
        if len(fields) != len(columns):
            raise LexergyError(f"{where} has {len(fields)} columns; {len(columns)} are expected: {', '.join(columns)}.")
        row = dict(zip(columns, fields, strict=True))
        if "ref" in row:
            references.setdefault(row["id"], row["ref"])
        scores = {
            column: _number(value, f"{where}, column {column!r}")
            for column, value in row.items()
            if column not in {"id", "ref", "text"}
        }
        rows.setdefault(row["id"], []).append(Hypothesis(row["text"], scores))
    return [Utterance(key, references.get(key), tuple(hypotheses)) for key, hypotheses in rows.items()]


def _columns(lines: Numbered, name: str) -> tuple[Sequence[str], Numbered]:
    """The names of a table's columns, and its rows. A first line that names a text column and holds no number
    is a header.
    """
    fields = [field.strip() for field in lines[0][1].split("\t")]
    if "text" not in fields or any(_is_number(field) for field in fields):
        if len(fields) != 3:
            raise LexergyError(
                f"{name} has {len(fields)} columns and no header. Without one they are id, score, text; for "
                "several scores put their names into a first line: id, acoustic, language, text."
            )
        return ("id", "score", "text"), lines
    names = ["id" if one in _IDENTITIES else "ref" if one in _REFERENCES else one for one in fields]
    if "id" not in names or len(set(names)) < len(names) or not set(names) - {"id", "ref", "text"}:
        raise LexergyError(
            f"The header of {name} needs the columns id, text and at least one score, each once; it has: "
            f"{', '.join(fields)}."
        )
    return names, lines[1:]


def _from_fairseq(lines: Numbered, name: str) -> list[Utterance]:
    sources: dict[str, str] = {}
    references: dict[str, str] = {}
    # D: the same hypotheses as H after de-tokenising. Where a file has them, they are what a reader would
    # see.
    hypotheses: dict[str, dict[str, list[Hypothesis]]] = {"H": {}, "D": {}}
    for number, line in lines:
        match = _FAIRSEQ.match(line)
        if match is None:
            continue  # the log lines around the output
        letter, key = match.groups()
        fields = line.split("\t", 2)
        if letter == "S":
            sources[key] = line.split("\t", 1)[1]
        elif letter == "T":
            references[key] = line.split("\t", 1)[1]
        elif letter in hypotheses:
            where = f"{name}, line {number}"
            if len(fields) < 3:
                raise LexergyError(f"{where}: a hypothesis is {letter}-{key}, score, text, with tabs between them.")
            score = _number(fields[1], where)
            hypotheses[letter].setdefault(key, []).append(Hypothesis(fields[2], {"score": score}))
    found = hypotheses["D"] if hypotheses["D"].keys() >= hypotheses["H"].keys() else hypotheses["H"]
    if not found:
        raise LexergyError(f"{name} has lines of fairseq's generate, but no hypothesis (H-0).")
    return [Utterance(key, references.get(key), tuple(found[key]), sources.get(key)) for key in sorted(found, key=int)]
