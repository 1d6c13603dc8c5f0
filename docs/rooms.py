"""One page for each room of the package, made from its docstrings; one table of all results.

The folder is the registry: a file that is added to a room is on the room's page, with no other edit. The
source is read and never run. Docstrings become Markdown by one rule: what is indented by four spaces is shown
as it stands, the rest is prose, in which only emphasis, code and lists are markup.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "src" / "lexergy"

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Module:
    """One file of a room: its name, its docstring and its syntax tree."""

    name: str
    doc: str
    tree: ast.Module

    @property
    def headline(self) -> str:
        """The docstring's first sentence or line, which is what a table row shows."""
        return " ".join(self.doc.split("\n\n")[0].split())


def rooms(package: Path) -> list[Path]:
    """The rooms: folders of the package with an __init__.py, in the order of their names."""
    return sorted(file.parent for file in package.glob("*/__init__.py"))


def modules(room: Path) -> list[Module]:
    """The files of a room that say what they are."""
    found = [_module(file) for file in sorted(room.glob("*.py")) if not file.name.startswith("_")]
    return [module for module in found if module.doc]


def write(package: Path, out: Path) -> list[Path]:
    """Write a page a room, and take away the pages of rooms that are gone."""
    out.mkdir(exist_ok=True)
    pages = {out / f"{room.name}.md": page(room) for room in rooms(package)}
    pages[out / "lexergy.md"] = page(package)
    for old in out.glob("[!_]*.md"):
        if old not in pages:
            old.unlink()
    for file, text in pages.items():
        # An unchanged file keeps its date, and Sphinx then does not read it again.
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    return sorted(pages)


def page(room: Path) -> str:
    """The page of a room: what it is for, a table of its files, then each file."""
    own = _module(room / "__init__.py")
    found = modules(room)
    parts = [f"# {room.name}", markdown(own.doc), *entries(own)]
    if found:
        rows = [f"| [`{m.name}`](#{room.name}-{m.name}) | {_cell(m.headline)} |" for m in found]
        parts.append("\n".join(["| file | what it is |", "| --- | --- |", *rows]))
    for module in found:
        parts += [f"({room.name}-{module.name})=\n## {module.name}", markdown(module.doc), *entries(module)]
    return "\n\n".join(part for part in parts if part) + "\n"


def entries(module: Module) -> Iterator[str]:
    """The public names of a file, each with its signature and its docstring."""
    body = module.tree.body
    for i, node in enumerate(body):
        following = body[i + 1] if i + 1 < len(body) else None
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield "\n\n".join([f"### {_text(node.name)}", _fenced(signature(node)), markdown(_doc(node))]).strip()
            if isinstance(node, ast.ClassDef):
                yield from _methods(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            text = following.value.value if isinstance(following.value, ast.Constant) else None
            if isinstance(target, ast.Name) and not target.id.startswith("_") and isinstance(text, str):
                yield f"### {_text(target.id)}\n\n{markdown(inspect.cleandoc(text))}"


def signature(node: Definition, prefix: str = "") -> str:
    """How a name is called or made."""
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in node.bases)
        head = f"class {node.name}({bases})" if bases else f"class {node.name}"
        made = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
        lines = [f"    {ast.unparse(each)}" for each in fields if not ast.unparse(each.target).startswith("_")]
        lines += [f"    {signature(each)}" for each in made]
        return "\n".join([head + (":" if lines else ""), *lines])
    arguments = ast.unparse(node.args)
    line = f"{prefix}{node.name}({arguments})"
    if node.returns is not None and node.name != "__init__":
        line += f" -> {ast.unparse(node.returns)}"
    if len(line) <= 100:
        return line
    return line.replace(f"({arguments})", "(\n    " + ",\n    ".join(_arguments(node.args)) + ",\n)", 1)


def markdown(doc: str) -> str:
    """A docstring as Markdown that holds no markup which it did not mean."""
    lines: list[str] = []
    fence, block, example = "", False, False
    for line in doc.splitlines():
        opening = re.match(r"(```+|~~~+)", line)
        if fence or opening:
            lines.append(line)
            fence = ("" if line.strip() == fence else fence) if fence else (opening[1] if opening else "")
            continue
        indented = line.startswith("    ")
        if indented and not block and (not lines or not lines[-1].strip() or example):
            block = True
            if lines and lines[-1].strip():
                lines.append("")
            lines.append("```python" if example else "```none")
        if block and line.strip() and not indented:
            _close(lines)
            block = example = False
        if block:
            lines.append(line[4:] if indented else "")
            continue
        if line.strip():
            example = bool(re.match(r"\*?Examples?\b\*?[.:]?", line))
        lines.append(line if indented else _prose(line))
    if block:
        _close(lines)
    if fence:
        lines.append(fence)
    return "\n".join(lines).rstrip()


def _close(lines: list[str]) -> None:
    """End a block before the empty lines that follow it."""
    empty = 0
    while not lines[-1].strip():
        lines.pop()
        empty += 1
    lines.extend(["```", *[""] * max(1, empty)])


def _prose(line: str) -> str:
    """A line of prose: outside code, what only looks like markup is escaped."""
    parts = re.split(r"(`+[^`]*`+)", line)
    text = "".join(part if part.startswith("`") else re.sub(r"([<\[\]{}$|])", r"\\\1", part) for part in parts)
    # These mean something at the start of a line only: headings, comments, targets, rules, quotes.
    return re.sub(r"^(\s*)(#|%|\+\+\+|\(|===|---|>|:::)", r"\1\\\2", text)


def _text(name: str) -> str:
    return name.replace("_", "\\_")


def _cell(text: str) -> str:
    return _prose(text)


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def _methods(node: ast.ClassDef) -> Iterator[str]:
    """The public methods and properties of a class, as one list."""
    items = []
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.name.startswith("_"):
            kinds = {ast.unparse(decorator) for decorator in each.decorator_list}
            shown = each.name if "property" in kinds else f"{each.name}({', '.join(_names(each.args, kinds))})"
            first = " ".join(_doc(each).split("\n\n")[0].split())
            items.append(f"- `{shown}`" + (f": {_prose(first)}" if first else ""))
    if items:
        yield "\n".join(items)


def _names(arguments: ast.arguments, kinds: set[str]) -> list[str]:
    names = [each.split(":")[0].split("=")[0].strip() for each in _arguments(arguments)]
    return names if "staticmethod" in kinds else names[1:]


def _arguments(arguments: ast.arguments) -> list[str]:
    """The arguments one by one, stars and slashes included."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    shown = [_argument(each, default) for each, default in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        shown.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        shown.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        shown.append("*")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    shown += [_argument(each, default) for each, default in pairs]
    return [*shown, f"**{_argument(arguments.kwarg, None)}"] if arguments.kwarg else shown


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if argument.annotation else f"{text}={ast.unparse(default)}"


def _doc(node: Definition | ast.Module) -> str:
    return ast.get_docstring(node) or ""


def _module(file: Path) -> Module:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return Module(file.stem, _doc(tree), tree)


def _generate(app: Any) -> None:
    """Make what the site includes, before Sphinx looks for its sources."""
    from lexergy.report.results import results_table

    out = Path(app.srcdir) / "rooms"
    write(PACKAGE, out)
    text = results_table(HERE.parent / "results")
    (out / "_results.md").write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Sphinx calls this."""
    app.connect("builder-inited", _generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    written = write(PACKAGE, HERE / "rooms")
    sys.stdout.write("\n".join(str(file) for file in written) + "\n")
