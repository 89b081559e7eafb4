"""The same program written otherwise: whether a diagnosis changes with the way in which the source is written.

    python benchmarks/rewritten.py [--healthy] [--ways WAY,WAY] [--family GD7] [--every N] [NAME …]
    python benchmarks/rewritten.py --show WAY FILE

The first takes the sick examples of the causes (or the healthy ones), rewrites them, and runs both; NAME is a part of
``cause/example``. A rewriting keeps every operation and its order: where another cause is told of the rewritten
program, or none, the source has decided what the run alone should decide. The second prints how a program is rewritten.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

Statement = ast.stmt
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (*_DEFINITIONS, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class CannotRewrite(Exception):
    """The program has nothing that this way would write otherwise."""


def _bound(node: ast.AST) -> set[str]:
    """Names that are bound anywhere below ``node``."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)}
    found |= {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    found |= {n.name for n in ast.walk(node) if isinstance(n, _DEFINITIONS)}
    return found | {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler) and n.name}


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _parts(tree: ast.Module) -> tuple[list[Statement], list[Statement]]:
    """What is defined at the top of a program, and what it does."""
    first = next((n for n, s in enumerate(tree.body) if not _only_defines(s)), len(tree.body))
    if not tree.body[first:]:
        raise CannotRewrite
    head = [s for s in tree.body if _only_defines(s)]
    return head, [s for s in tree.body if not _only_defines(s)]


def _only_defines(statement: Statement) -> bool:
    doc = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return doc or isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef)


def _variables(head: list[Statement], body: list[Statement]) -> set[str]:
    """Names of variables that the body binds and that nothing in a scope of its own binds again."""
    block = ast.Module(body, [])
    inner = {name for n in ast.walk(ast.Module(head + body, [])) if isinstance(n, _SCOPES) for name in _bound(n)}
    names = {n.id for n in ast.walk(block) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if any(
        isinstance(n, ast.Global | ast.Nonlocal | ast.Delete | ast.Import | ast.ImportFrom) for n in ast.walk(block)
    ):
        raise CannotRewrite
    return {n for n in names if n not in inner and not hasattr(builtins, n)}


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: set[str], made: Callable[[str], ast.expr]) -> None:
        self.names, self.made = names, made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.names:
            return node
        new = self.made(node.id)
        new.ctx = node.ctx  # type: ignore[attr-defined]
        return new


def in_a_function(tree: ast.Module) -> ast.Module:
    """``main()`` does what stood at the top level; what functions read of it stays global."""
    head, body = _parts(tree)
    shared = sorted(_variables(head, body) & _read(ast.Module(head, [])))
    lines: list[Statement] = [ast.Global(shared)] if shared else []
    main = ast.parse("def main():\n    pass\n\n\nif __name__ == '__main__':\n    main()\n").body
    assert isinstance(main[0], ast.FunctionDef)
    main[0].body = lines + body
    return ast.Module(head + main, [])


def _held(tree: ast.Module, start: str, made: Callable[[str], ast.expr]) -> ast.Module:
    """What is bound at the top level is held by what ``start`` makes."""
    head, body = _parts(tree)
    names = _variables(head, body)
    if not names:
        raise CannotRewrite
    renamed = _Renamed(names, made)
    return ast.Module(ast.parse(start).body + [renamed.visit(s) for s in head + body], [])


def in_attributes(tree: ast.Module) -> ast.Module:
    """Every variable of the top level is an attribute of one object."""
    return _held(tree, "import types\n\nrun = types.SimpleNamespace()\n", lambda name: _attribute("run", name))


def in_a_dictionary(tree: ast.Module) -> ast.Module:
    """Every variable of the top level is an entry of one dictionary."""
    held = ast.Name("held", ast.Load())
    return _held(tree, "held = {}\n", lambda name: ast.Subscript(held, ast.Constant(name), ast.Load()))


def _attribute(owner: str, name: str) -> ast.expr:
    return ast.Attribute(ast.Name(owner, ast.Load()), name, ast.Load())


def in_a_class(tree: ast.Module) -> ast.Module:
    """A trainer, whose method does what stood at the top level; its variables are attributes."""
    head, body = _parts(tree)
    names = _variables(head, body)
    if not names or names & _read(ast.Module(head, [])):
        raise CannotRewrite
    renamed = _Renamed(names, lambda name: _attribute("self", name))
    made = ast.parse("class Trainer:\n    def fit(self):\n        pass\n\n\nTrainer().fit()\n").body
    trainer = made[0]
    assert isinstance(trainer, ast.ClassDef) and isinstance(trainer.body[0], ast.FunctionDef)
    trainer.body[0].body = [renamed.visit(s) for s in body]
    return ast.Module(head + made, [])


def in_a_round(tree: ast.Module) -> ast.Module:
    """What a loop at the top level does is a function that the loop calls."""
    head, body = _parts(tree)
    _variables(head, body)  # refuses what cannot be moved
    done = False
    for n, loop in enumerate(body):
        if not isinstance(loop, ast.For | ast.While) or not _trains(loop) or _leaves(loop):
            continue
        shared = sorted(_bound_here(loop.body) - (_bound(loop.target) if isinstance(loop, ast.For) else set()))
        given = sorted(_bound(loop.target)) if isinstance(loop, ast.For) else []
        if isinstance(loop, ast.For) and set(given) & _read(ast.Module(head + body[:n] + body[n + 1 :], [])):
            continue
        made = ast.parse(f"def one_round({', '.join(given)}):\n    pass\n").body[0]
        assert isinstance(made, ast.FunctionDef)
        made.name = f"one_round_{n}" if done else "one_round"
        lines: list[Statement] = [ast.Global(shared)] if shared else []
        made.body = lines + loop.body
        loop.body = ast.parse(f"{made.name}({', '.join(given)})").body
        head, done = [*head, made], True
    if not done:
        raise CannotRewrite
    return ast.Module(head + body, [])


def _trains(loop: ast.stmt) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in ("backward", "step", "grad") for n in ast.walk(loop))


def _leaves(loop: ast.For | ast.While) -> bool:
    def found(block: list[Statement], loops: bool) -> bool:
        for s in block:
            if isinstance(s, ast.Return | ast.Yield | ast.Nonlocal):
                return True
            if isinstance(s, ast.Break | ast.Continue) and not loops:
                return True
            if isinstance(s, _DEFINITIONS):
                continue
            inner = loops or isinstance(s, ast.For | ast.While)
            for name in ("body", "orelse", "finalbody"):
                if found(getattr(s, name, []) or [], inner):
                    return True
        return False

    return bool(loop.orelse) or found(loop.body, False)


def _bound_here(block: list[Statement]) -> set[str]:
    """Names that the statements bind in their own scope."""
    found: set[str] = set()

    def look(node: ast.AST) -> None:
        if isinstance(node, _DEFINITIONS):
            found.add(node.name)
            return
        if isinstance(node, _SCOPES):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        for child in ast.iter_child_nodes(node):
            look(child)

    for s in block:
        look(s)
    return found


_CALLED = {
    *("append", "update", "backward", "step", "zero_grad", "load_state_dict"),
    *("clone", "copy_", "detach", "item", "mean", "numpy", "sum", "tolist"),
}


def through_functions(tree: ast.Module) -> ast.Module:
    """``value.backward()`` is ``call_backward(value)``, a function of the program's own; so are other method calls."""
    used: set[str] = set()

    class Wrapped(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            f = node.func
            if not isinstance(f, ast.Attribute) or f.attr not in _CALLED or _is_super(f.value) or _is_module(f.value):
                return node
            used.add(f.attr)
            return ast.Call(ast.Name(f"call_{f.attr}", ast.Load()), [f.value, *node.args], node.keywords)

    made = Wrapped().visit(tree)
    if not used:
        raise CannotRewrite
    source = "".join(f"def call_{u}(of, *args, **more):\n    return of.{u}(*args, **more)\n\n\n" for u in sorted(used))
    return _below_imports(made, ast.parse(source).body)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("torch", "np", "numpy", "F", "nn", "math")


def _below_imports(tree: ast.Module, new: list[Statement]) -> ast.Module:
    last = max((n for n, s in enumerate(tree.body) if isinstance(s, ast.Import | ast.ImportFrom)), default=-1)
    return ast.Module(tree.body[: last + 1] + new + tree.body[last + 1 :], [])


_NOT_IN_ORDER = (*_SCOPES, ast.IfExp, ast.BoolOp, ast.Await, ast.Yield, ast.NamedExpr, ast.Starred)
"""What evaluates a part of itself never, later or several times."""


class _InStatements(ast.NodeTransformer):
    """Writes lines before a statement; only where all of it is evaluated once, in order."""

    def __init__(self) -> None:
        self.number = 0
        self.changed = False

    def lines(self, value: ast.expr) -> tuple[list[Statement], ast.expr]:
        raise NotImplementedError

    def _plain(self, node: ast.Assign | ast.Return | ast.Expr) -> ast.AST | list[Statement]:
        if node.value is None or any(isinstance(n, _NOT_IN_ORDER) for n in ast.walk(node)):
            return node
        before, node.value = self.lines(node.value)
        self.changed = self.changed or bool(before)
        return [*before, node]

    visit_Assign = visit_Return = visit_Expr = _plain

    def bound(self, value: ast.expr) -> tuple[Statement, ast.expr]:
        self.number += 1
        name = f"part_{self.number}"
        return ast.Assign([ast.Name(name, ast.Store())], value), ast.Name(name, ast.Load())


class _Parts(_InStatements):
    def lines(self, value: ast.expr) -> tuple[list[Statement], ast.expr]:
        before: list[Statement] = []

        def taken(node: ast.expr, outermost: bool) -> ast.expr:
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Attribute):
                    node.func.value = taken(node.func.value, False)
                node.args = [taken(a, False) for a in node.args]
                for k in node.keywords:
                    k.value = taken(k.value, False)
            elif isinstance(node, ast.BinOp):
                node.left, node.right = taken(node.left, False), taken(node.right, False)
            elif isinstance(node, ast.UnaryOp):
                node.operand = taken(node.operand, False)
            elif isinstance(node, ast.Attribute | ast.Subscript):
                node.value = taken(node.value, False)
                return node
            elif isinstance(node, ast.Tuple | ast.List):
                node.elts = [taken(e, False) for e in node.elts]
                return node
            else:
                return node
            if (
                outermost
                or (isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant))
                or _is_super(node)
            ):
                return node
            line, name = self.bound(node)
            before.append(line)
            return name

        return before, taken(value, True)


def in_parts(tree: ast.Module) -> ast.Module:
    """Every operation is a statement that binds a name of its own."""
    parts = _Parts()
    made = parts.visit(tree)
    if not parts.changed:
        raise CannotRewrite
    return made


class _Aliases(_InStatements):
    def lines(self, value: ast.expr) -> tuple[list[Statement], ast.expr]:
        if not isinstance(value, ast.Call):
            return [], value
        before: list[Statement] = []
        for n, a in enumerate(value.args):
            if isinstance(a, ast.Name):
                line, value.args[n] = self.bound(a)
                before.append(line)
        if (
            isinstance(value.func, ast.Attribute)
            and isinstance(value.func.value, ast.Name)
            and not _is_module(value.func.value)
        ):
            line, value.func.value = self.bound(value.func.value)
            before.append(line)
        return before, value


def by_other_names(tree: ast.Module) -> ast.Module:
    """What a call is given, and whose method is called, has another name first."""
    aliases = _Aliases()
    made = aliases.visit(tree)
    if not aliases.changed:
        raise CannotRewrite
    return made


def by_while(tree: ast.Module) -> ast.Module:
    """``for`` loops are ``while`` loops over an iterator."""
    number = 0

    class Loops(ast.NodeTransformer):
        def visit_For(self, node: ast.For) -> ast.AST | list[Statement]:
            nonlocal number
            self.generic_visit(node)
            if node.orelse:
                return node
            number += 1
            name = f"rest_{number}"
            start = ast.Assign([ast.Name(name, ast.Store())], ast.Call(ast.Name("iter", ast.Load()), [node.iter], []))
            loop = ast.parse(
                f"while True:\n    try:\n        x = next({name})\n    except StopIteration:\n        break\n"
            ).body[0]
            assert isinstance(loop, ast.While) and isinstance(loop.body[0], ast.Try)
            taken = loop.body[0].body[0]
            assert isinstance(taken, ast.Assign)
            taken.targets = [node.target]
            loop.body += node.body
            return [start, loop]

    made = Loops().visit(tree)
    if not number:
        raise CannotRewrite
    return made


WAYS: dict[str, Callable[[ast.Module], ast.Module]] = {
    f.__name__: f
    for f in (
        in_a_function,
        in_attributes,
        in_a_dictionary,
        in_a_class,
        in_a_round,
        through_functions,
        in_parts,
        by_other_names,
        by_while,
    )
}


def rewritten(text: str, way: str) -> str:
    """The text of a program that does the same.

    Raises:
        CannotRewrite: it has nothing that this way would write otherwise.
    """
    return ast.unparse(ast.fix_missing_locations(WAYS[way](ast.parse(text)))) + "\n"


def told(text: str) -> tuple[list[str], str]:
    """The causes that are told of a program, with their confidence, and the last line that it wrote."""
    from told_in_forks import run

    with tempfile.TemporaryDirectory(prefix="rewritten-") as name:
        folder = Path(name)
        (folder / "train.py").write_text(text)
        result = run(folder)
        words = result.stderr.strip().splitlines()[-1:]
        return [f"{d.cause} {d.confidence}" for d in result.report.diagnoses], " ".join(words)


def programs(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """The chosen examples: ``cause/example``, and the text."""
    from examples import healthy, sick

    from graphdoc.causes import all_causes

    kind = healthy if options.healthy else sick
    found = [(f"{c.slug}/{e.name}", e.code) for c in all_causes() if options.family in c.code for e in kind(c)]
    if options.names:
        yield from (one for one in found if any(word in one[0] for word in options.names))
    else:
        yield from found[options.start :: options.every]


def compare(label: str, text: str, ways: list[str], tried: Counter[str], same: Counter[str]) -> None:
    """Runs a program and its rewritings, counts those of which the same is told, and prints the others."""
    before: tuple[list[str], str] | None = None
    for way in ways:
        try:
            other = rewritten(text, way)
        except (CannotRewrite, RecursionError):
            continue
        before = before or told(text)
        after = told(other)
        if after[1].partition(":")[0] != before[1].partition(":")[0]:
            continue  # a rewriting that does something else
        tried[way] += 1
        if after[0][:1] == before[0][:1]:
            same[way] += 1
        else:
            print(f"{label:60} {way:18} {before[0][:1]} -> {after[0][:2]} | {after[1][:80]}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--healthy", action="store_true", help="the healthy examples instead of the sick ones")
    parser.add_argument("--family", default="", help="a part of the cause's code")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--show", metavar="WAY")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.show:
        print(rewritten(Path(options.names[0]).read_text(), options.show))
        return 0
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    same, tried = Counter[str](), Counter[str]()
    for label, text in programs(options):
        compare(label, text, options.ways.split(","), tried, same)
    for way in (w for w in WAYS if tried[w]):
        print(f"{way:20} {same[way]} of {tried[way]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
