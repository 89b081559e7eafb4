"""The house: no import runs back, none runs in a circle, and no room is larger than a quarter of it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "graphdoc"
FORBIDDEN = {
    "capture": {"causes", "program", "remedies", "story", "fixes", "verify", "render", "cli", "messages", "source"},
    "source": {"causes", "program", "remedies", "story", "fixes", "verify", "render", "cli", "capture"},
    "program": {"causes", "remedies", "story", "fixes", "verify", "render", "cli", "capture"},
    "picture": {"causes", "remedies", "story", "fixes", "verify", "render", "cli", "capture", "libcst"},
    "story": {"causes", "remedies", "fixes", "verify", "render", "cli", "capture"},
    "remedies": {"causes", "proposals", "verify", "render", "cli", "capture"},
    "fixes": {"causes", "program", "remedies", "story", "proposals", "verify", "render", "cli", "capture"},
    "proposals": {"render", "doors", "cli", "capture"},
    "causes": {"proposals", "verify", "render", "cli", "capture"},
    "render": {"program", "remedies", "story", "cli", "capture", "libcst"},
}


def imports() -> dict[str, set[str]]:
    """For each module of the package, the modules of the package that are imported by it, at its top or in a function.
    What stands under ``TYPE_CHECKING`` is a name in an annotation, and loads nothing."""
    return _read()[0]


@cache
def _read() -> tuple[dict[str, set[str]], Counter[Path]]:
    """The imports, and by folder the lines that are no page of a cause."""
    names = {_name(p): p for p in ROOT.rglob("*.py")}
    found: dict[str, set[str]] = {}
    lines: Counter[Path] = Counter()
    for name, path in names.items():
        seen = set()
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        pages = sum(
            node.end_lineno - node.lineno + 1
            for node in tree.body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PAGE" and node.end_lineno
        )
        lines[path.parent] += len(text.splitlines()) - pages
        for node in _loaded(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                seen |= {full if (full := f"{node.module}.{a.name}") in names else node.module for a in node.names}
            elif isinstance(node, ast.Import):
                seen |= {alias.name for alias in node.names}
        found[name] = seen & names.keys() - {name}
    return found, lines


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _loaded(tree: ast.AST) -> Iterator[ast.AST]:
    """Everything below a node but what only a type checker reads."""
    todo = [tree]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if not (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"):
                yield child
                todo.append(child)


def room(module: str) -> str:
    """The package of graphdoc that a module lies in; a module beside the packages is a room of its own."""
    return [*module.split("."), "graphdoc"][1]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_import_runs_back(name: str) -> None:
    back = [(m, i) for m, seen in imports().items() if room(m) == name for i in seen if room(i) in FORBIDDEN[name]]
    assert not back


def circle(graph: dict[str, set[str]]) -> list[str]:
    """A way through the graph that comes back to where it began; empty where there is none."""
    done: set[str] = set()

    def walk(name: str, above: list[str]) -> list[str]:
        if name in above:
            return [*above[above.index(name) :], name]
        if name in done:
            return []
        done.add(name)
        return next((way for other in sorted(graph.get(name, ())) if (way := walk(other, [*above, name]))), [])

    return next((way for name in sorted(graph) if (way := walk(name, []))), [])


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_import_runs_in_a_circle() -> None:
    assert not circle(imports())


def test_what_reads_a_run_needs_no_torch() -> None:
    """graphdoc may stand beside the program's environment, and torch takes seconds to load."""
    rooms = FORBIDDEN.keys() - {"capture"} | {"verify", "messages", "diagnose", "probe"}
    wanted = sorted(m for m in imports() if room(m) in rooms)
    code = f"import sys; sys.modules['torch'] = None; [__import__(m) for m in {wanted}]"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_no_room_is_imported_by_what_it_imports() -> None:
    rooms: dict[str, set[str]] = {}
    for name, seen in imports().items():
        rooms.setdefault(room(name), set()).update(room(i) for i in seen if room(i) != room(name))
    assert not circle(rooms)


def test_no_cause_imports_another() -> None:
    causes = {m for m in imports() if m.count(".") == 3 and m.startswith("graphdoc.causes.")}
    assert not [(m, i) for m in causes for i in imports()[m] & causes]


def test_every_maker_of_edits_is_known_as_a_kind() -> None:
    """Without ``@kind`` above it nothing finds a fix."""
    makers = {
        f"{path.name}: {node.name}": [ast.unparse(d) for d in node.decorator_list]
        for path in (ROOT / "fixes").glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and len(node.args.args) in (2, 3)
        if node.args.args[0].arg in ("source", "sources")
        if ast.unparse(node.args.args[-1].annotation or node) == "Args"
        if not node.name.startswith("_") and node.returns is not None and ast.unparse(node.returns) == "list[Edit]"
    }
    assert len(makers) > 50
    assert not [name for name, above in makers.items() if not any(d.startswith("kind(") for d in above)]


def test_no_room_is_larger_than_a_quarter_of_the_house() -> None:
    lines = _read()[1]
    largest, most = lines.most_common(1)[0]
    assert most <= sum(lines.values()) / 4, largest
