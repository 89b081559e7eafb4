"""One fault at a time, put into the source of a healthy program: the faults that users write into training code, and a
few changes that are none."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise

from mutated import Mutant, Source

NULL_CONTEXT = '__import__("contextlib").nullcontext()'
IN_PLACE = frozenset({"relu", "tanh", "sigmoid", "clamp", "exp", "mul", "add", "sub", "div", "sqrt"})
OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def mutants(text: str) -> list[Mutant]:
    """Every faulty version of the source ``text`` that the kinds below can make. Raises SyntaxError."""
    source = Source(text)
    found: dict[str, Mutant] = {}
    for make in KINDS:
        for mutant in make(source):
            if mutant.text != text and _parses(mutant.text):
                found.setdefault(mutant.text, mutant)
    return list(found.values())


def kept_graphs(mutant: Mutant) -> Mutant | None:
    """``mutant`` with the answer that PyTorch's message suggests: every plain ``backward()`` keeps its graph."""
    source = Source(mutant.text)
    changes = [
        (node, f"{source.of(node.func)}(retain_graph=True)")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and _method(node) == "backward" and not node.args and not node.keywords
    ]
    if not changes:
        return None
    return Mutant(f"{mutant.kind}+retain", mutant.lines, source.replaced(*changes))


def dropped_calls(source: Source) -> Iterator[Mutant]:
    """``x.detach()``, ``x.clone()``, ``copy.deepcopy(x)``, ``x.requires_grad_(False)`` become ``x``."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = _method(node)
        if name in ("detach", "clone", "requires_grad_") and isinstance(node.func, ast.Attribute):
            after = source.parents.get(node)
            if name == "detach" and isinstance(after, ast.Attribute) and after.attr in ("cpu", "numpy", "item"):
                continue
            if name == "requires_grad_" and not _is_false(node.args):
                continue
            yield Mutant(name, (node.lineno,), source.replaced((node, source.of(node.func.value))))
        elif name == "detach_" and isinstance(source.parents.get(node), ast.Expr):
            yield Mutant("detach", (node.lineno,), source.replaced((node, "pass")))
        elif name == "deepcopy" and len(node.args) == 1:
            yield Mutant("deepcopy", (node.lineno,), source.replaced((node, source.of(node.args[0]))))


def kept_numbers(source: Source) -> Iterator[Mutant]:
    """A number that is added up or stored keeps its graph: ``total += loss.item()``, ``log.append(float(loss))``."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        owner = source.parents.get(node)
        stored = isinstance(owner, ast.AugAssign) or (isinstance(owner, ast.Call) and _method(owner) == "append")
        if not stored:
            continue
        if _method(node) == "item" and isinstance(node.func, ast.Attribute):
            yield Mutant("item", (node.lineno,), source.replaced((node, source.of(node.func.value))))
        elif isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1:
            yield Mutant("item", (node.lineno,), source.replaced((node, source.of(node.args[0]))))


def data_reads(source: Source) -> Iterator[Mutant]:
    """``p.data.copy_(q)`` becomes ``p.copy_(q)``, ``h = h.data`` becomes ``h = h``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr == "data":
            after = source.parents.get(node)
            written = isinstance(node.ctx, ast.Store) or (isinstance(after, ast.Attribute) and after.attr[-1] == "_")
            read = isinstance(node.value, ast.Name) and not isinstance(after, ast.Attribute)
            if written or read:
                yield Mutant("data", (node.lineno,), source.replaced((node, source.of(node.value))))


def recording(source: Source) -> Iterator[Mutant]:
    """``with torch.no_grad()`` and its decorator are gone, ``create_graph=True`` is ``False``, nothing is frozen."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.With):
            for item in node.items:
                if _is_no_grad(source.of(item.context_expr)):
                    text = source.replaced((item.context_expr, NULL_CONTEXT))
                    yield Mutant("no_grad", (item.context_expr.lineno,), text)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if _is_no_grad(source.of(decorator)):
                    yield Mutant("no_grad", (decorator.lineno,), source.replaced((decorator, "(lambda f: f)")))
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "create_graph" and _is_true(keyword.value):
                    yield Mutant("create_graph", (keyword.value.lineno,), source.replaced((keyword.value, "False")))
        elif isinstance(node, ast.Assign) and _is_false([node.value]):
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
                yield Mutant("requires_grad_", (node.lineno,), source.replaced((node, "pass")))


def missing_statements(source: Source) -> Iterator[Mutant]:
    """An ``optimizer.zero_grad()`` or ``optimizer.step()`` is missing, or what a scaler needs beside these."""
    for block in source.blocks():
        for statement in block:
            name = _bare_call(statement)
            scales = name in ("unscale_", "update") and "scaler" in source.of(statement)
            if scales or (name in ("zero_grad", "step") and _is_optimizer_call(source, statement)):
                yield Mutant(f"{name}-gone", (statement.lineno,), source.replaced((statement, "pass")))


def writes(source: Source) -> Iterator[Mutant]:
    """A new tensor becomes a write in place: ``x += y``, ``x.relu_()``, ``relu(x, inplace=True)``, ``x[mask] = y``."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if isinstance(value, ast.BinOp) and ast.dump(value.left) == _loaded(target):
                sign = OPERATORS.get(type(value.op))
                if sign is not None:
                    new = f"{source.of(target)} {sign}= {source.of(value.right)}"
                    yield Mutant("inplace", (node.lineno,), source.replaced((node, new)))
            if isinstance(value, ast.Call) and _method(value) == "where" and len(value.args) == 3:
                mask, kept, other = value.args
                if ast.dump(kept) == _loaded(target):
                    new = f"{source.of(target)}[~({source.of(mask)})] = {source.of(other)}"
                    yield Mutant("where", (node.lineno,), source.replaced((node, new)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, owner = node.func.attr, source.of(node.func.value)
            if name == "relu" and owner in ("F", "torch", "nn.functional") and len(node.args) == 1:
                text = source.replaced((node, f"torch.relu_({source.of(node.args[0])})"))
                yield Mutant("inplace-call", (node.lineno,), text)
            elif name in IN_PLACE and owner not in ("F", "torch", "np", "math", "nn.functional"):
                arguments = source.of(node)[len(source.of(node.func)) :]
                yield Mutant("inplace-call", (node.lineno,), source.replaced((node, f"{owner}.{name}_{arguments}")))
            elif name in ("ReLU", "LeakyReLU") and owner in ("nn", "torch.nn"):
                given = f"{source.of(node.args[0])}, " if node.args else ""
                text = source.replaced((node, f"{source.of(node.func)}({given}inplace=True)"))
                if not node.keywords:
                    yield Mutant("inplace-module", (node.lineno,), text)


def wrong_order(source: Source) -> Iterator[Mutant]:
    """Statements in the wrong order: a step before its backward, a forward pass before the other network's step."""
    for block in source.blocks():
        for first, second in pairwise(block):
            names = (_bare_call(first), _bare_call(second))
            if names in (
                ("backward", "step"),
                ("zero_grad", "backward"),
                ("step", "backward"),
                ("backward", "zero_grad"),
                ("clip_grad_norm_", "step"),
                ("backward", "clip_grad_norm_"),
                ("unscale_", "clip_grad_norm_"),
            ):
                yield Mutant(
                    "swap-" + "-".join(map(str, names)), (first.lineno, second.lineno), source.swapped(first, second)
                )
        for index, statement in enumerate(block):
            if _bare_call(statement) == "step" and _is_optimizer_call(source, statement):
                yield from _step_too_late(source, block, index)
                yield from _step_too_early(source, block, index)


def _step_too_late(source: Source, block: list[ast.stmt], index: int) -> Iterator[Mutant]:
    """The step moved behind the assignments that follow it, so that the next backward meets changed parameters."""
    later = next((i for i in range(index + 1, len(block)) if _bare_call(block[i]) == "backward"), None)
    if later is None or not any(isinstance(s, ast.Assign) for s in block[index + 1 : later]):
        return
    moved, target = block[index], block[later]
    text = source.replaced((moved, "pass"), (target, f"{source.of(moved)}; {source.of(target)}"))
    if "\n" not in source.of(target):
        yield Mutant("late-step", (moved.lineno, target.lineno), text)


def _step_too_early(source: Source, block: list[ast.stmt], index: int) -> Iterator[Mutant]:
    """The step moved right behind an earlier backward of the block, before another backward of the same pass."""
    calls = [i for i in range(index) if _bare_call(block[i]) == "backward"]
    if len(calls) < 2 or any(_bare_call(s) == "step" for s in block[calls[-2] : index]):
        return
    early = block[calls[-2]]
    text = source.replaced((early, f"{source.of(early)}; {source.of(block[index])}"), (block[index], "pass"))
    yield Mutant("early-step", (early.lineno, block[index].lineno), text)


def shared_forward(source: Source) -> Iterator[Mutant]:
    """A second call with the same arguments becomes the first one's value: ``again = model(x)`` is ``again = y``."""
    for block in source.blocks():
        known: dict[str, str] = {}
        for statement in block:
            if not isinstance(statement, ast.Assign | ast.Expr | ast.Return | ast.AugAssign):
                continue
            if statement.value is None:
                continue
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Call) and ast.dump(node) in known and node.args:
                    text = source.replaced((node, known[ast.dump(node)]))
                    yield Mutant("shared-forward", (node.lineno,), text)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if isinstance(target, ast.Name) and isinstance(statement.value, ast.Call) and statement.value.args:
                known[ast.dump(statement.value)] = target.id


def built_once(source: Source) -> Iterator[Mutant]:
    """An assignment at the head of a loop's body is made once, before the loop."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.For) or node.orelse or node.body[0].lineno == node.lineno:
            continue
        if not any(isinstance(n, ast.Call) and _method(n) == "backward" for n in ast.walk(node)):
            continue
        bound = {
            n.id
            for s in (node.target, *node.body)
            for n in ast.walk(s)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        for statement in node.body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
                continue
            read = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
            if read & bound or any(word in source.of(statement) for word in ("\n", "rand")):  # one batch is no fault
                continue
            lines = source.text.splitlines(keepends=True)
            lines[statement.lineno - 1] = " " * statement.col_offset + "pass\n"
            head = lines[node.lineno - 1]
            if source.of(node).split("\n")[0].strip() == head.strip():
                indent = head[: len(head) - len(head.lstrip())]
                lines[node.lineno - 1] = f"{indent}{source.of(statement)}\n{head}"
                yield Mutant("built-once", (node.lineno, node.lineno + 1), "".join(lines))


CUTS = {
    "cut-detach": "({}).detach()",
    "cut-data": "({}).data",
    "cut-numpy": "torch.from_numpy(({}).detach().numpy())",
    "cut-list": "torch.tensor(({}).tolist())",
    "cut-flagged": "({}).detach().requires_grad_()",
    "cut-long": "({}).long().float()",
    "cut-round": "torch.round({})",
    "cut-compare": "(({}) > 0.5).float()",
    "cut-argmax": "torch.nn.functional.one_hot(({0}).argmax(-1), ({0}).shape[-1]).float()",
    "cloned": "({}).clone()",
}
"""What becomes of a computed value. The last changes nothing."""


def cut_values(source: Source) -> Iterator[Mutant]:
    """A value that is computed from others loses its graph, or its gradient, where it is assigned or handed on."""
    for node in ast.walk(source.tree):
        value = node.value if isinstance(node, ast.Assign | ast.Return) else None
        if not isinstance(value, ast.Call | ast.BinOp) or "\n" in source.of(value):
            continue
        text = source.of(value)
        if isinstance(value, ast.Call) and not value.args:
            continue
        if any(word in text for word in ("nn.", "optim", "torch.rand", "torch.zeros", "torch.ones", "load", "range")):
            continue
        for kind, template in CUTS.items():
            yield Mutant(kind, (node.lineno,), source.replaced((value, template.format(text))))
        if isinstance(node, ast.Assign):
            yield Mutant(
                "cut-no_grad", (node.lineno,), source.replaced((node, f"with torch.no_grad(): {source.of(node)}"))
            )


def cut_terms(source: Source) -> Iterator[Mutant]:
    """A term of a sum is added as a number: ``loss + 0.1 * penalty`` is ``loss + (0.1 * penalty).item()``."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign) or "loss" not in source.of(node.targets[0]).lower():
            continue
        if isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            term = node.value.right
            yield Mutant("cut-item", (node.lineno,), source.replaced((term, f"({source.of(term)}).item()")))


def held_parameters(source: Source) -> Iterator[Mutant]:
    """An optimizer is given some of its parameters, or a copy's; a network is frozen, or made anew behind it."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        call, name = node.value, _method(node.value)
        if name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad") and call.args and "\n" not in source.of(node):
            given = source.of(call.args[0])
            yield Mutant("held-part", (node.lineno,), source.replaced((call.args[0], f"list({given})[:-2]")))
            yield Mutant("held-part", (node.lineno,), source.replaced((call.args[0], f"list({given})[2:]")))
            if given.endswith(".parameters()"):
                model = given[: -len(".parameters()")]
                copied = f'__import__("copy").deepcopy({model}).parameters()'
                yield Mutant("held-copy", (node.lineno,), source.replaced((call.args[0], copied)))
                frozen = f"{source.of(node)}; next({given}).requires_grad_(False)"
                yield Mutant("frozen-one", (node.lineno,), source.replaced((node, frozen)))
                frozen = f"{source.of(node)}; {model}.requires_grad_(False)"
                yield Mutant("frozen-all", (node.lineno,), source.replaced((node, frozen)))


PLAIN = {"ModuleList": "list", "ParameterList": "list", "ModuleDict": "dict", "ParameterDict": "dict"}


def unregistered(source: Source) -> Iterator[Mutant]:
    """Layers lie in a plain list or dict, a parameter is a plain tensor with the flag."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or len(node.args) != 1 or not isinstance(node.func, ast.Attribute):
            continue
        given = source.of(node.args[0])
        if node.func.attr in PLAIN:
            text = source.replaced((node, f"{PLAIN[node.func.attr]}({given})"))
            yield Mutant("plain-container", (node.lineno,), text)
        elif node.func.attr == "Parameter" and not node.keywords:
            text = source.replaced((node, f"({given}).requires_grad_()"))
            yield Mutant("plain-tensor", (node.lineno,), text)


def calls_again(source: Source) -> Iterator[Mutant]:
    """A backward call is made twice or keeps its graph, which may change nothing; a step is made twice."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call) or "\n" in source.of(node):
            continue
        call, text = node.value, source.of(node)
        if _method(call) == "backward" and not call.args and not call.keywords:
            kept = f"{source.of(call.func)}(retain_graph=True)"
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):  # the very same loss
                yield Mutant("backward-twice", (node.lineno,), source.replaced((node, f"{kept}; {text}")))
            yield Mutant("graph-kept", (node.lineno,), source.replaced((node, kept)))
        elif _method(call) == "zero_grad" and _is_optimizer_call(source, node):
            yield Mutant("zeroed-twice", (node.lineno,), source.replaced((node, f"{text}; {text}")))


Kind = Callable[[Source], Iterator[Mutant]]
KINDS: tuple[Kind, ...] = (
    cut_values,
    cut_terms,
    held_parameters,
    unregistered,
    calls_again,
    dropped_calls,
    kept_numbers,
    data_reads,
    recording,
    missing_statements,
    writes,
    wrong_order,
    shared_forward,
    built_once,
)


def _method(call: ast.Call) -> str | None:
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _bare_call(statement: ast.stmt) -> str | None:
    """The method that a statement of its own calls: ``step`` for ``optimizer.step()``."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _method(statement.value)
    return None


def _is_optimizer_call(source: Source, statement: ast.stmt) -> bool:
    text = source.of(statement)
    return not any(word in text for word in ("sched", "env.", "profiler", "prof."))


def _is_no_grad(text: str) -> bool:
    return text.rstrip("()").rsplit(".", 1)[-1] == "no_grad"


def _is_false(values: list[ast.expr]) -> bool:
    return len(values) == 1 and isinstance(values[0], ast.Constant) and values[0].value is False


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _loaded(target: ast.expr) -> str:
    """The dump of ``target`` as it looks where it is read."""
    return ast.dump(target).replace("Store()", "Load()")


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
