"""Every Python example in the README and the docs runs: the blocks of a file in order, in one namespace.

A block that is not to be run is marked `text` in its file; none is skipped here.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(file: Path) -> list[tuple[int, str]]:
    """The fenced Python blocks of a file, each with the number of its first line."""
    found: list[tuple[int, str]] = []
    fence, language, start, body = "", "", 0, []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not fence:
            opening = re.match(r"\s{0,3}(```+|~~~+)\s*(\S*)", line)
            if opening:
                fence, language, start, body = opening[1], opening[2], number + 1, []
        elif line.strip() == fence:
            if language in ("python", "py", "python3"):
                found.append((start, "\n".join(body)))
            fence = ""
        else:
            body.append(line)
    assert not fence, f"{file.name}: the block at line {start} is not closed"
    return found


FILES = [file for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if blocks(file)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
@pytest.mark.usefixtures("hub")
def test_examples_run(file):
    namespace: dict[str, object] = {"__name__": "__main__"}
    for start, source in blocks(file):
        # The empty lines in front make a traceback name the line of the Markdown file.
        exec(compile("\n" * (start - 1) + source, str(file), "exec"), namespace)  # noqa: S102


def test_blocks_are_found_where_they_are(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n```python\nx = 1\n```\n```text\nno\n```\n````python\n'''\n```\n'''\n````\n", encoding="utf-8")
    assert blocks(page) == [(3, "x = 1"), (9, "'''\n```\n'''")]


def test_there_are_examples():
    assert any(file.name == "concepts.md" for file in FILES)
