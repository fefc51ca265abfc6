"""The shape of the code: number and size of files, and modules that belong to another one.

Lines of *code* hold at least one token that is neither comment nor docstring. *Median* and *longest* are over modules:
all files but `__init__` and `__main__`. An *importer* of a module is another file of src/twofold with an import
statement for it, anywhere: inside functions and under TYPE_CHECKING, too. ``from package import name`` imports the
submodule of that name, or else the module from which the package's `__init__` has the name. Modules that are loaded
only by a string have no importer. A module with one importer and fewer than 60 lines is *small*: it may belong into its
importer. *Public* names are top-level functions and classes without a leading underscore.

`python -m studies shape [--root DIR] [--json]`
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import io
import json
import statistics
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["LONGEST", "SMALLEST", "Part", "Shape", "main", "shape"]

#: More lines than this are too many for one module.
LONGEST: Final = 600
#: A module with one importer and fewer lines than this is small.
SMALLEST: Final = 60
PACKAGE: Final = "src/twofold"
OTHERS: Final = ("studies", "tests", "benchmarks")

_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, kw_only=True)
class Part:
    """Sizes of one folder: all its files, and the median and longest of its modules."""

    files: int
    lines: int
    code: int
    median: float
    longest: int


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of each folder, and other figures of the package.

    Attributes
    ----------
    parts : mapping
        Folder to its sizes; a folder that is not there has zeros.
    public, top : int
        Public names of the package, and names in its `__all__`.
    one_importer : mapping
        Module with exactly one importer to that importer.
    small, long : mapping
        Small modules, and those of more than 600 lines, to their lines.
    """

    parts: Mapping[str, Part]
    public: int
    top: int
    one_importer: Mapping[str, str]
    small: Mapping[str, int]
    long: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class _File:
    """One file, read once."""

    name: str  # dotted, without `__init__`
    path: Path
    tree: ast.Module
    lines: int
    code: int

    @property
    def package(self) -> bool:
        return self.path.stem == "__init__"

    @property
    def module(self) -> bool:
        return self.path.stem not in ("__init__", "__main__")


def shape(root: str | Path) -> Shape:
    """Measure the repository in `root`.

    Parameters
    ----------
    root : path
        Folder that has src/twofold in it.
    """
    folders = {folder: _files(Path(root) / folder) for folder in (PACKAGE, *OTHERS)}
    own = {one.name: one for one in folders[PACKAGE]}
    if not own:
        raise FileNotFoundError(f"{Path(root).resolve()} has no {PACKAGE}")
    importers = _importers(own)
    modules = {name: one.lines for name, one in own.items() if one.module}
    single = {name: next(iter(importers[name])) for name in modules if len(importers[name]) == 1}
    return Shape(
        parts={folder: _part(files) for folder, files in folders.items()},
        public=sum(_public(one.tree) for one in own.values()),
        top=len(_all(own[Path(PACKAGE).name].tree)),
        one_importer=single,
        small={name: lines for name, lines in modules.items() if name in single and lines < SMALLEST},
        long={name: lines for name, lines in modules.items() if lines > LONGEST},
    )


def _files(folder: Path) -> list[_File]:
    return [_read(path, folder) for path in sorted(folder.rglob("*.py"))]


def _read(path: Path, folder: Path) -> _File:
    text = path.read_text(encoding="utf-8")
    parts = [folder.name, *path.relative_to(folder).with_suffix("").parts]
    if parts[-1] == "__init__":
        parts.pop()
    tree = ast.parse(text, str(path))
    return _File(
        name=".".join(parts), path=path, tree=tree, lines=len(text.splitlines()), code=len(_code_lines(text, tree))
    )


def _code_lines(text: str, tree: ast.Module) -> set[int]:
    """Lines of code: without comments and docstrings."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | _Definition) and node.body and _is_text(node.body[0]):
            found.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _part(files: Sequence[_File]) -> Part:
    lengths = [one.lines for one in files if one.module]
    return Part(
        files=len(files),
        lines=sum(one.lines for one in files),
        code=sum(one.code for one in files),
        median=statistics.median(lengths) if lengths else 0,
        longest=max(lengths, default=0),
    )


def _public(tree: ast.Module) -> int:
    return sum(isinstance(node, _Definition) and not node.name.startswith("_") for node in tree.body)


def _all(tree: ast.Module) -> list[str]:
    """Names in `__all__`, which must be a plain list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return list(ast.literal_eval(node.value))
    return []


def _importers(files: Mapping[str, _File]) -> dict[str, set[str]]:
    """Name the importers of every file."""
    passed = {name: _passed_on(one, files) for name, one in files.items() if one.package}
    found: dict[str, set[str]] = {name: set() for name in files}
    for name, one in files.items():
        for module, what in _imports(one, files):
            found[passed.get(module, {}).get(what, module)].add(name)
    return {name: importers - {name} for name, importers in found.items()}


def _passed_on(package: _File, files: Mapping[str, _File]) -> dict[str, str]:
    """Names that a package's `__init__` imports from its modules, with the module of each."""
    return {what: module for module, what in _imports(package, files) if module.startswith(f"{package.name}.")}


def _imports(one: _File, files: Mapping[str, _File]) -> Iterator[tuple[str, str]]:
    """Modules of the package that a file imports, anywhere in it, each with the name taken from it or ''."""
    for node in ast.walk(one.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            base = _base(one, node)
            for alias in node.names:
                if f"{base}.{alias.name}" in files:
                    yield f"{base}.{alias.name}", ""
                elif base in files:
                    yield base, alias.name


def _base(one: _File, node: ast.ImportFrom) -> str:
    """The module between `from` and `import`, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    parents = one.name.split(".")
    start = parents[: len(parents) - node.level + one.package]
    return ".".join([*start, node.module] if node.module else start)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the shape of a repository."""
    parser = argparse.ArgumentParser(prog="python -m studies shape", description=main.__doc__)
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).parents[1], help="the repository (default: this one)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    given = parser.parse_args(arguments)
    found = shape(given.root)
    print(json.dumps(dataclasses.asdict(found), indent=2) if given.json else _text(found))


def _text(found: Shape) -> str:
    lines = ["| folder | files | lines | code | median module | longest |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {folder} | {one.files:,} | {one.lines:,} | {one.code:,} | {one.median:g} | {one.longest:,} |"
        for folder, one in found.parts.items()
    ]
    lines += ["", f"Public names: {found.public:,}; in twofold.__all__: {found.top}."]
    lines.append(
        f"Modules with one importer: {len(found.one_importer)}; of these under {SMALLEST} lines: {len(found.small)}."
    )
    lines += [f"  {name} ({length}) <- {found.one_importer[name]}" for name, length in found.small.items()]
    lines.append(f"Modules over {LONGEST} lines: {len(found.long)}.")
    lines += [f"  {name} ({length})" for name, length in found.long.items()]
    return "\n".join(lines)
