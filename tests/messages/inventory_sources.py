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
    "torch/distributed/_composable/",
    "torch/distributed/algorithms/_checkpoint/",
    "torch/distributed/algorithms/_comm_hooks/",
    "torch/distributed/algorithms/ddp_comm_hooks/",
    "torch/distributed/algorithms/join.py",
    "torch/distributed/fsdp/",
    "torch/distributed/optim/",
    "torch/_dynamo/compiled_autograd.py",
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
    "warn": 0,
    "warn_once": 0,
    "warning_once": 0,
}
_WARNS = frozenset({"warn", "warn_once", "warning_once", "_warn_once"})
# Dynamo's reasons for not compiling: they come as keyword arguments of one function.
_REASONS = frozenset({"unimplemented", "unimplemented_v2", "unimplemented_with_warning", "graph_break"})
_PERCENT = re.compile(r"%(?:\((\w+)\))?[-+ #0-9.]*[sdrifgxX]")
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Found:
    """One message in a source: its template, the class it comes as, and the file and function that hold it."""

    text: str
    kind: str
    exception: str
    where: str


def messages_of(package: Path, wanted: re.Pattern[str]) -> Iterator[Found]:
    """All messages below ``package`` (the folder that holds ``torch/``): of some parts all, of the rest the wanted."""
    for path in sorted((package / "torch").rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if name.startswith(NEVER):
            continue
        whole = name.startswith(WHOLE)
        for found in messages_of_file(name, path.read_text(encoding="utf-8", errors="replace")):
            if whole or wanted.search(literal(found.text)):
                yield found


def messages_of_file(name: str, source: str) -> Iterator[Found]:
    """All messages of one module, in the order of its lines; none where it is not of this Python's syntax."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    yield from _Collector(name, tree).found()


def literal(text: str) -> str:
    """A template without its placeholders."""
    return re.sub(r"⟨[^⟩]*⟩", " ", text)


class _Collector:
    """Walks one module; knows the functions it is in and what plain names were given to texts there."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self._name = name
        self._tree = tree
        self._scopes: list[tuple[str, dict[str, ast.expr]]] = [("", _texts_of(tree))]

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
            name = _name_of(node.func)
            if name in _REASONS:
                for keyword in node.keywords:
                    if keyword.arg in ("gb_type", "explanation", "reason", "msg"):
                        yield from self._found(keyword.value, "error", "Unsupported")
                for argument in node.args[:1]:
                    yield from self._found(argument, "error", "Unsupported")
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

    def _found(self, expression: ast.expr, kind: str, exception: str) -> Iterator[Found]:
        text = " ".join(self._text(expression).split())
        if len(re.findall(r"[A-Za-z]{2,}", literal(text))) >= 3:
            where = ".".join(name for name, _ in self._scopes if name)
            yield Found(text, kind, exception, f"{self._name}:{where}" if where else self._name)

    def _text(self, node: ast.expr, depth: int = 0) -> str:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else f"⟨{node.value!s}⟩"
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(v, depth) for v in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._value(node.value, depth)
        if isinstance(node, ast.Lambda):
            return self._text(node.body, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._text(node.left, depth) + self._text(node.right, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return _PERCENT.sub(lambda m: f"⟨{m.group(1) or 'value'}⟩", self._text(node.left, depth))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "format":
                return _BRACES.sub(lambda m: f"⟨{m.group(1) or 'value'}⟩", self._text(node.func.value, depth))
            if node.func.attr == "dedent" and node.args:
                return textwrap.dedent(self._text(node.args[0], depth))
            if node.func.attr in ("strip", "lstrip", "rstrip"):
                return self._text(node.func.value, depth)
        return self._value(node, depth)

    def _value(self, node: ast.expr, depth: int) -> str:
        """A value put into a message: the text itself where a plain name was given one nearby, else a placeholder."""
        if isinstance(node, ast.Name) and depth < 4:
            for _, texts in reversed(self._scopes):
                if node.id in texts:
                    return self._text(texts[node.id], depth + 1)
        shown = " ".join(ast.unparse(node).split()).replace("⟨", "<").replace("⟩", ">")
        return f"⟨{shown[:60]}⟩"


def _texts_of(scope: ast.AST) -> dict[str, ast.expr]:
    """The names that are given one text, once, directly in a function, class or module."""
    texts: dict[str, ast.expr] = {}
    twice: set[str] = set()
    todo: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while todo:
        node = todo.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            twice.add(node.target.id)
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in texts:
                twice.add(name)
            elif _is_text(node.value):
                texts[name] = node.value
            else:
                twice.add(name)
    return {name: value for name, value in texts.items() if name not in twice}


def _is_text(node: ast.expr) -> bool:
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
    return node.id if isinstance(node, ast.Name) else ""
