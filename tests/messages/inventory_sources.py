"""Every message that the Python sources of a torch package can raise or warn with, as templates, found by syntax.

A template is the text of the message with each value that is put in at run time written as ``⟨expression⟩``.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The parts of the package of which every message counts, whatever its words.
WHOLE = (
    "torch/_tensor.py",
    "torch/amp/",
    "torch/autograd/",
    "torch/cuda/amp/",
    "torch/distributed/",
    "torch/_dynamo/",
    "torch/_functorch/",
    "torch/func/",
    "torch/_library/autograd.py",
    "torch/nn/parallel/",
    "torch/nn/utils/clip_grad.py",
    "torch/nn/utils/parametrize.py",
    "torch/nn/utils/stateless.py",
    "torch/nn/utils/_expanded_weights/",
    "torch/optim/",
    "torch/utils/checkpoint.py",
    "torch/utils/hooks.py",
)
# What no training loop meets: PyTorch's tests, exporters and the tools that build it.
NEVER = (
    "torch/testing/",
    "torch/onnx/",
    "torch/_vendor/",
    "torch/utils/benchmark/",
    "torch/utils/hipify/",
    "torch/utils/tensorboard/",
    "torch/utils/cpp_extension.py",
    "torch/ao/",
    "torch/quantization/",
    "torch/package/",
    "torchgen/",
)
# Functions that raise or warn with the text they are given, and at which position it stands.
_CHECKS = {
    "_check": 1,
    "_check_index": 1,
    "_check_not_implemented": 1,
    "_check_tensor_all": 1,
    "_check_type": 1,
    "_check_value": 1,
    "_check_with": 2,
    "_p_assert": 1,
    "_warn_once": 0,
    "deprecated": 0,
    "warn": 0,
    "warn_once": 0,
    "warning_once": 0,
}
_WARNS = frozenset({"deprecated", "warn", "warn_once", "warning_once", "_warn_once"})
# Dynamo's reasons for not compiling: they come as keyword arguments of one function.
_REASONS = frozenset({"unimplemented", "unimplemented_v2", "unimplemented_with_warning", "graph_break"})
_PERCENT = re.compile(r"%(?:\((\w+)\))?[-+ #0-9.]*[sdrifgxX]")
# Methods that give the text they are called on, but for what is put in.
_SAME_TEXT = frozenset({"format", "strip", "lstrip", "rstrip"})
_MOST_TEXTS = 6
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Found:
    """One message in a source: its template, the class it comes as, and the file and function that hold it."""

    text: str
    kind: str
    exception: str
    where: str


@dataclass(frozen=True)
class Thrower:
    """A function that raises or warns with a text it is given, as argument ``text`` (its name and its position).

    ``exception`` is what it raises; empty where the caller gives that too, as argument ``kind``.
    """

    text: tuple[str, int]
    exception: str
    kind: tuple[str, int] = ("", -1)


def messages_of(package: Path, wanted: re.Pattern[str]) -> Iterator[Found]:
    """All messages below ``package`` (the folder that holds ``torch/``): of some parts all, of the rest the wanted."""
    for path in sorted((package / "torch").rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(NEVER):
            for found in messages_of_file(name, path.read_text(encoding="utf-8", errors="replace")):
                if name.startswith(WHOLE) or wanted.search(literal(found.text)):
                    yield found


def messages_of_file(name: str, source: str) -> Iterator[Found]:
    """All messages of one module, in the order of its lines; none where it is not of this Python's syntax."""
    tree = _parsed(source)
    if tree is not None:
        yield from _Collector(name, tree, _throwers(tree)).found()


def _parsed(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _throwers(tree: ast.Module) -> dict[str, Thrower]:
    """The functions of a module that raise what they are given: a check that is written once and called often."""
    found = {}
    for function in ast.walk(tree):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        given = [a.arg for a in (*function.args.posonlyargs, *function.args.args) if a.arg not in ("self", "cls")]
        for node in ast.walk(function):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                text, kind = _name_of(node.exc.args[0]), _name_of(node.exc.func)
                if text in given and isinstance(node.exc.args[0], ast.Name):
                    as_given = (kind, given.index(kind)) if kind in given else ("", -1)
                    found[function.name] = Thrower((text, given.index(text)), "" if as_given[0] else kind, as_given)
    return found


def literal(text: str) -> str:
    """A template without its placeholders."""
    return re.sub(r"⟨[^⟩]*⟩", " ", text)


class _Collector:
    """Walks one module; knows the functions it is in and what plain names were given to texts there."""

    def __init__(self, name: str, tree: ast.Module, throwers: dict[str, Thrower]) -> None:
        self._name = name
        self._tree = tree
        self._throwers = throwers
        self._scopes: list[tuple[str, dict[str, list[ast.expr]]]] = [("", _texts_of(tree))]

    def found(self) -> Iterator[Found]:
        yield from self._walk(self._tree)

    def _walk(self, node: ast.AST) -> Iterator[Found]:
        inner = None
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = node
            self._scopes.append((inner.name, _texts_of(inner)))
        yield from self._messages(node)
        for child in ast.iter_child_nodes(node):
            yield from self._walk(child)
        if inner:
            self._scopes.pop()

    def _messages(self, node: ast.AST) -> Iterator[Found]:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if node.exc.args and _name_of(node.exc.func):
                yield from self._found(node.exc.args[0], "error", _name_of(node.exc.func))
        elif isinstance(node, ast.Assert) and node.msg is not None:
            yield from self._found(node.msg, "error", "AssertionError")
        elif isinstance(node, ast.Call):
            yield from self._called(node, _name_of(node.func))

    def _called(self, node: ast.Call, name: str) -> Iterator[Found]:
        if name in _REASONS:
            yield from self._reasons(node)
        elif name == "__init__" and isinstance(node.func, ast.Attribute) and _name_of(node.func.value) == "super":
            own = next((n for n, _ in reversed(self._scopes) if n.endswith(("Error", "Exception", "Warning"))), "")
            if own and node.args:
                yield from self._found(node.args[0], "warning" if own.endswith("Warning") else "error", own)
        elif name in self._throwers:
            thrower = self._throwers[name]
            text = _argument(node, thrower.text)
            if text is not None:
                yield from self._found(text, "error", thrower.exception or _name_of(_argument(node, thrower.kind)))
        elif name in _CHECKS and len(node.args) > _CHECKS[name]:
            warns = name in _WARNS
            category = next((k.value for k in node.keywords if k.arg == "category"), None)
            if category is None and name == "warn" and len(node.args) > 1:
                category = node.args[1]
            exception = _name_of(category) if category is not None else ""
            error = "AssertionError" if name == "_p_assert" else "RuntimeError"
            yield from self._found(
                node.args[_CHECKS[name]],
                "warning" if warns else "error",
                (exception if exception.endswith("Warning") else "UserWarning") if warns else error,
            )

    def _reasons(self, node: ast.Call) -> Iterator[Found]:
        """A reason of dynamo's for not compiling is printed as its short name and an explanation behind that."""
        given = {k.arg: k.value for k in node.keywords}
        if "gb_type" in given and "explanation" in given:
            both = ast.JoinedStr([given["gb_type"], ast.Constant(" Explanation: "), given["explanation"]])
            yield from self._found(both, "error", "Unsupported")
            return
        for keyword in ("gb_type", "explanation", "reason", "msg"):
            if keyword in given:
                yield from self._found(given[keyword], "error", "Unsupported")
        for argument in node.args[:1]:
            yield from self._found(argument, "error", "Unsupported")

    def _found(self, expression: ast.expr, kind: str, exception: str) -> Iterator[Found]:
        for text in dict.fromkeys(" ".join(t.split()) for t in self._texts(expression)):
            if len(re.findall(r"[A-Za-z]{2,}", literal(text))) >= 3:
                where = ".".join(name for name, _ in self._scopes if name)
                yield Found(text, kind, exception, f"{self._name}:{where}" if where else self._name)

    def _texts(self, node: ast.expr, depth: int = 0) -> list[str]:
        """The texts that an expression can be, each value that is put in as a placeholder; at most a few."""
        if isinstance(node, ast.Constant):
            return [node.value if isinstance(node.value, str) else f"⟨{node.value!s}⟩"]
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values, depth)
        if isinstance(node, ast.FormattedValue):
            return self._value(node.value, depth)
        if isinstance(node, ast.Lambda):
            return self._texts(node.body, depth)
        if isinstance(node, ast.IfExp):
            either = [*self._texts(node.body, depth), *self._texts(node.orelse, depth)][:_MOST_TEXTS]
            if any(literal(text).strip() for text in either):
                return either
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined([node.left, node.right], depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            inner = self._texts(node.left, depth)
            return [_PERCENT.sub(lambda m: f"⟨{m.group(1) or 'value'}⟩", text) for text in inner]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            inner = self._texts(node.func.value, depth) if node.func.attr in _SAME_TEXT else []
            if node.func.attr == "format":
                return [_BRACES.sub(lambda m: f"⟨{m.group(1) or 'value'}⟩", text) for text in inner]
            if node.func.attr == "dedent" and node.args:
                return [textwrap.dedent(text) for text in self._texts(node.args[0], depth)]
            if inner:
                return inner
        return self._value(node, depth)

    def _joined(self, parts: list[ast.expr], depth: int) -> list[str]:
        texts = [""]
        for part in parts:
            texts = [before + text for before in texts for text in self._texts(part, depth)][:_MOST_TEXTS]
        return texts

    def _value(self, node: ast.expr, depth: int) -> list[str]:
        """A value put into a message: the texts that a plain name was given nearby, else a placeholder."""
        if isinstance(node, ast.Name) and depth < 4:
            for _, texts in reversed(self._scopes):
                if node.id in texts:
                    return [t for value in texts[node.id] for t in self._texts(value, depth + 1)][:_MOST_TEXTS]
        shown = " ".join(ast.unparse(node).split()).replace("⟨", "<").replace("⟩", ">")
        return [f"⟨{shown[:60]}⟩"]


def _texts_of(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """The names that are given nothing but texts, directly in a function, class or module; a few texts at most.

    What is added to a text later stands behind it: the beginning is the text that a message is known by.
    """
    texts: dict[str, list[ast.expr]] = {}
    other: set[str] = set()
    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if _is_text(node.value):
                texts.setdefault(node.targets[0].id, []).append(node.value)
            else:
                other.add(node.targets[0].id)
    return {name: values for name, values in texts.items() if name not in other and len(values) <= _MOST_TEXTS}


def _argument(node: ast.Call, which: tuple[str, int]) -> ast.expr | None:
    name, position = which
    named = next((k.value for k in node.keywords if k.arg == name), None)
    return named if named is not None else node.args[position] if 0 <= position < len(node.args) else None


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "strip") and _is_text(node.func.value)
        )
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _name_of(node: ast.expr | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _name_of(node.func)
    return node.id if isinstance(node, ast.Name) else ""
