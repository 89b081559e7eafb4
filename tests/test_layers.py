"""The house: no import runs back, none runs in a circle, and no room is larger than a quarter of it."""

from __future__ import annotations

import ast
from collections import Counter
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
    "remedies": {"causes", "verify", "render", "cli", "capture"},
    "fixes": {"causes", "program", "remedies", "story", "render", "cli", "capture"},
    "causes": {"verify", "render", "cli", "capture"},
    "render": {"program", "remedies", "story", "cli", "capture", "libcst"},
}


@cache
def imports() -> dict[str, set[str]]:
    """For each module of the package, the modules of the package that are imported by it, at its top or later."""
    found: dict[str, set[str]] = {}
    names = {".".join(("graphdoc", *p.relative_to(ROOT).with_suffix("").parts)): p for p in ROOT.rglob("*.py")}
    for name, path in names.items():
        seen = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("graphdoc"):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    seen.add(full if full in names else node.module)
            elif isinstance(node, ast.Import):
                seen |= {a.name for a in node.names if a.name.startswith("graphdoc")}
        found[name] = seen - {name}
    return found


def room(module: str) -> str:
    """The package of graphdoc that a module lies in."""
    return [*module.split("."), ""][1]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_no_import_runs_back(name: str) -> None:
    back = [(m, i) for m, seen in imports().items() if room(m) == name for i in seen if room(i) in FORBIDDEN[name]]
    assert not back


@cache
def at_top() -> dict[str, set[str]]:
    """The same of what is imported when a module is."""
    found: dict[str, set[str]] = {}
    for name in imports():
        path = ROOT.parent / Path(*name.split("."))
        file = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        seen = {n.module for n in tree.body if isinstance(n, ast.ImportFrom) and n.module}
        found[name] = seen & imports().keys()
    return found


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
    assert not circle(at_top())


def test_no_room_is_imported_by_what_it_imports() -> None:
    """A module beside the rooms is a room of its own: the plain data that all of them share lies there."""
    rooms: dict[str, set[str]] = {}
    for name, seen in at_top().items():
        rooms.setdefault(room(name), set()).update(room(i) for i in seen if room(i) != room(name))
    assert not circle({name: seen for name, seen in rooms.items() if name})


def test_no_cause_imports_another() -> None:
    causes = {m for m in imports() if m.count(".") == 3 and m.startswith("graphdoc.causes.")}
    assert not [(m, i) for m in causes for i in imports()[m] & causes]


def test_no_room_is_larger_than_a_quarter_of_the_house() -> None:
    lines: Counter[Path] = Counter()
    for path in ROOT.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        pages = sum(
            node.end_lineno - node.lineno + 1
            for node in ast.parse(text).body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PAGE" and node.end_lineno
        )
        lines[path.parent] += len(text.splitlines()) - pages
    largest, most = lines.most_common(1)[0]
    assert most <= sum(lines.values()) / 4, largest
