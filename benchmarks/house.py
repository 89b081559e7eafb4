"""How large and how tangled the package is, and how much of it one diagnosis runs through.

python benchmarks/house.py [CORPUS]

CORPUS is a folder of ``corpus.py record``; with it the modules and functions that each cause's diagnosis runs through
are counted.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "graphdoc"
SYNTAX_ROOMS = ("source",)
"""Folders whose work it is to walk syntax trees."""
MOST_RETURNS = 6
MOST_FILES = 30


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text())
    return found


def imports(name: str, tree: ast.Module, known: Iterable[str]) -> set[str]:
    """The modules of the package that a module imports when it is itself imported; not those for types alone."""
    names = set(known)
    found: set[str] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {f"{node.module}.{a.name}" for a in node.names} & names or {node.module}
        todo.extend(ast.iter_child_nodes(node))
    return (found & names) - {name}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import one another in a circle."""
    order: list[str] = []
    seen: set[str] = set()
    backward: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            backward[target].add(name)

    def visit(start: str, edges: dict[str, set[str]], done: list[str]) -> None:
        stack = [(start, iter(sorted(edges.get(start, ()))))]
        seen.add(start)
        while stack:
            following = next((n for n in stack[-1][1] if n not in seen), None)
            if following is None:
                done.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(sorted(edges.get(following, ())))))

    for name in graph:
        if name not in seen:
            visit(name, graph, order)
    seen.clear()
    groups = []
    for name in reversed(order):
        if name not in seen:
            group: list[str] = []
            visit(name, backward, group)
            groups.append(sorted(group))
    return [g for g in groups if len(g) > 1]


def longest_chain(graph: dict[str, set[str]]) -> list[str]:
    best: dict[str, list[str]] = {}

    def chain(name: str, above: tuple[str, ...]) -> list[str]:
        if name not in best:
            ways = [chain(n, (*above, name)) for n in sorted(graph[name]) if n not in above]
            best[name] = [name, *max(ways, key=len, default=[])]
        return best[name]

    return max((chain(n, ()) for n in graph), key=len)


def returns_of(function: ast.AST) -> int:
    found, todo = 0, list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        found += isinstance(node, ast.Return)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(node))
    return found


def is_walk(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("ast.walk", "ast.iter_child_nodes")


def is_shape_test(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    return any(isinstance(n, ast.Name) and n.id == "ast" for n in ast.walk(node.args[1]))


def ran_through(corpus: Path) -> dict[str, list[tuple[int, int]]]:
    """For each cause, the numbers of modules and functions of the package that each of its diagnoses ran."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from corpus import recorded

    from graphdoc.diagnose import findings_for

    counted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    prefix = str(PACKAGE)
    for _, evidence in recorded(corpus):
        codes = set()

        def seen(frame: FrameType, event: str, _arg: Any, codes: set[Any] = codes) -> None:
            if event == "call" and frame.f_code.co_filename.startswith(prefix):
                codes.add(frame.f_code)

        sys.setprofile(seen)
        try:
            found, _ = findings_for(evidence)
        finally:
            sys.setprofile(None)
        if found:
            counted[found[0].cause.slug].append((len({c.co_filename for c in codes}), len(codes)))
    return counted


def main() -> int:
    trees = modules()
    files = sorted(PACKAGE.rglob("*.py"))
    lines = {p: p.read_text().count("\n") for p in files}
    functions = [
        n for t in trees.values() for n in ast.walk(t) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    graph = {name: imports(name, tree, trees) for name, tree in trees.items()}
    circles = cycles(graph)
    rows = Counter(p.relative_to(PACKAGE).parts[0] if p.parent != PACKAGE else "." for p in files)
    print(f"{sum(lines.values()):,} lines, {len(files)} files, {len(functions):,} functions")
    for room, count in rows.most_common():
        inside = [p for p in files if (p.relative_to(PACKAGE).parts[0] if p.parent != PACKAGE else ".") == room]
        print(f"  {room:12} {count:4} files {sum(lines[p] for p in inside):7,} lines")
    used = Counter(target for targets in graph.values() for target in targets)
    print(f"modules with one importer: {sum(1 for n in used.values() if n == 1)}")
    print(f"longest chain of imports: {len(longest_chain(graph))}; circles: {[len(c) for c in circles]}")
    folders = Counter(p.parent for p in files)
    print(f"folders with more than {MOST_FILES} files: {sum(1 for n in folders.values() if n > MOST_FILES)}")
    ladders = [f for f in functions if returns_of(f) > MOST_RETURNS]
    print(f"functions with more than {MOST_RETURNS} returns: {len(ladders)}")
    outside = [t for n, t in trees.items() if n.split(".")[1:2] not in [[r] for r in SYNTAX_ROOMS]]
    walks = sum(is_walk(n) for t in outside for n in ast.walk(t))
    shapes = sum(is_shape_test(n) for t in outside for n in ast.walk(t))
    print(f"outside {', '.join(SYNTAX_ROOMS)}: {walks} walks of a syntax tree, {shapes} isinstance tests of its nodes")
    for argument in sys.argv[1:]:
        through = ran_through(Path(argument).resolve())
        every = [m for row in through.values() for m, _ in row]
        print(f"a diagnosis runs through {median(every)} modules (median of {len(every)}), by cause:")
        for slug, row in sorted(through.items(), key=lambda r: -median(m for m, _ in r[1])):
            print(f"  {slug:34} {median(m for m, _ in row):5} modules {median(f for _, f in row):6} functions")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
