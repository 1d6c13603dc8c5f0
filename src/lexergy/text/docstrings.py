"""The corpus that is always at hand: the docstrings of the installed packages and of Python's own library.

Files are found on the disk and parsed with `ast`; nothing is imported or run. They come in an order keyed by
the hash of their module's name, so that the first n words are a mixture of all packages and the same in every
run over the same versions.
"""

import ast
import hashlib
import importlib.util
import os
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from lexergy.core.errors import LexergyError
from lexergy.text.document import Document

NAME = "docstrings"
PACKAGES = ("numpy", "torch", "transformers")
_SKIPPED = {"test", "tests", "testing", "idlelib", "lib2to3", "site-packages", "dist-packages", "__pycache__"}


def docstrings(
    limit_words: int | None = None,
    packages: Sequence[str] = PACKAGES,
    standard_library: bool = True,
    least_words: int = 16,
) -> Iterator[Document]:
    """Docstrings of at least `least_words` words, one a document, grouped by module; at most about
    `limit_words` words.

    A package that is not installed is an error: a corpus that silently shrinks is another corpus.
    """
    roots = [_package(name) for name in packages]
    if standard_library:
        roots.append(("", Path(sysconfig.get_paths()["stdlib"])))
    modules = {module: file for prefix, root in roots for module, file in _modules(prefix, root)}
    return _documents(modules, limit_words, least_words)


def _documents(modules: dict[str, Path], limit_words: int | None, least_words: int) -> Iterator[Document]:
    words = 0
    for module in sorted(modules, key=_place):
        for name, text in _docstrings_of(modules[module]):
            length = len(text.split())
            if length < least_words:
                continue
            yield Document(text, module, f"{module}.{name}" if name else module)
            words += length
            if limit_words is not None and words >= limit_words:
                return
    if words == 0:
        raise LexergyError(
            f"No docstring of {least_words} words was found in {len(modules)} installed modules: their "
            "sources may have been stripped. Give a corpus file instead."
        )


def _place(module: str) -> bytes:
    """Where a module comes in the order: by a hash, so that a limit takes a mixed sample; a keyed one, because a
    split goes by the plain hash of the same name, and the first modules would all fall into its first part."""
    return hashlib.blake2b(module.encode(), digest_size=8, key=b"order").digest()


def _package(name: str) -> tuple[str, Path]:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise LexergyError(
            f"The docstring corpus reads the package {name!r}, which is not installed: pip install {name}."
        )
    return name, Path(next(iter(spec.submodule_search_locations)))


def _modules(prefix: str, root: Path) -> Iterator[tuple[str, Path]]:
    """(module, file) for each source file below a folder. Test suites are left out: their strings are data,
    not prose.
    """
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if name not in _SKIPPED and not name.startswith("."))
        here = Path(folder).relative_to(root).parts
        for file in sorted(files):
            if file.endswith(".py"):
                stem = file.removesuffix(".py")
                parts = [part for part in (prefix, *here, "" if stem == "__init__" else stem) if part]
                yield ".".join(parts), Path(folder, file)


def _docstrings_of(file: Path) -> Iterator[tuple[str, str]]:
    """(qualified name, cleaned docstring) in the order of the source; a file that does not parse has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other people's invalid escapes are not our user's concern
            tree = ast.parse(file.read_bytes())
    except (
        SyntaxError,
        ValueError,
        OSError,
    ):  # another Python's syntax, an odd encoding, a file that just went
        return
    yield from _below(tree, "")


def _below(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text and _is_text(text):
            yield name, text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _below(child, f"{name}.{child.name}" if name else child.name)


def _is_text(text: str) -> bool:
    """A docstring may escape what no UTF-8 file can hold."""
    return "\x00" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)
