"""Telling parameters that their module does not have: in plain containers, kept as results, made anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from graphdoc.evidence import Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, edit_at, remedy_at, together
from graphdoc.model import Span
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import is_flagged
from graphdoc.program.modules_in_source import written_into
from graphdoc.program.observed import Program
from graphdoc.program.proof import likely
from graphdoc.program.spans import code_at, frames, innermost_user, of_sign, place, short_code, span, span_of
from graphdoc.program.tracker import behind
from graphdoc.program.written_out import in_one_piece
from graphdoc.source.module import each, given_to, is_method_call, is_within, keyword, values_of, walked
from graphdoc.source.paths import covers, is_name, is_set, last_word, only, parse_expression, path_of, plain_names
from graphdoc.source.scopes import bound_names, function_of
from graphdoc.story.wording import folded, listing, optimizer_of

# Telling parameters that a straight-through sum leaves without gradient: only its detached part is made of them.


def bypassed(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``bypassed`` sign; None where the parameters have no name."""
    whose = folded(sign.parameters)
    if not whose:
        return None
    node = parse_expression(code_at(program.sources, innermost_user(sign.stack)))
    detached = next(
        (
            n.value.left
            for n in each(node, ast.Attribute)
            if n.attr in ("detach", "data") and isinstance(n.value, ast.BinOp)
        ),
        None,
    )
    value = f"`{ast.unparse(detached)}`" if detached is not None else "what is detached here"
    title = f"no gradient reaches {whose}: only the detached value is in the loss"
    text = f"The sum has the value of {value} and passes the gradient to the other side. A loss computed from the sum "
    text += f"does not train what {value} was made of: such a term has to be computed from {value} itself."
    around = f"the gradient goes around {value}, and so around {whose}"
    spans = of_sign(sign, around, f"reaches the other parameters of this loss, not {whose}")
    because = f"{optimizer_of(program.optimizers, sign)} holds {whose}, which no backward call has reached and nothing "
    because += "else has changed"
    remedies = tuple(_own_value(program.sources, innermost_user(sign.stack), detached, whose))
    return Finding(*likely(0.9), title, text, spans, remedies=remedies, because=because)


def _own_value(sources: SourceTexts, at: Frame | None, own: ast.expr | None, whose: str) -> list[Remedy]:
    """Let the terms below the sum that compare it with a detached value be computed from ``own``, whose value it has:
    they read that name, or come before the sum where the sum takes the name."""
    node = bindings.statement_at(sources, at)
    target = only(node.targets) if isinstance(node, ast.Assign) else None
    if at is None or node is None or not isinstance(target, ast.Name) or not isinstance(own, ast.Name):
        return []
    block, index = bindings.source_at(sources, at).node_block(node)
    below = list(
        takewhile(lambda s: target.id not in bindings.names_in(s) or _compares(s, target.id), block[index + 1 :])
    )
    terms = [s for s in below if _compares(s, target.id)] if own.id == target.id else block[index + 1 :]
    places = [bindings.frame_of(sources, at.file, n) for s in terms for n in _compares(s, target.id)]
    note = f"the term then gives {whose} a gradient"
    if not places:
        return []
    if own.id != target.id:
        edits = [edit_at("use_instead", p, operand=target.id, name=own.id, inside=True) for p in places]
        return together(edits, f"compute that term from `{own.id}`", "unsafe", note)
    title, after = f"compute the terms of `{own.id}` before the sum", bindings.frame_of(sources, at.file, terms[-1])
    return [*remedy_at(at, "move_statement", title, "unsafe", note, after=place(after), old_value=True)]


def _compares(statement: ast.stmt, name: str) -> list[ast.expr]:
    """The calls and differences in it that take this value and another one, one of the two detached."""
    found: list[ast.expr] = []
    for node in each(statement, ast.Call, ast.BinOp):
        given = given_to(node) if isinstance(node, ast.Call) else [node.left, node.right]
        live = [n.func.value if is_method_call(n, "detach") else n for n in given]
        if any(is_name(n, name) for n in live) and live != given:
            found.append(node)
    return found


# Telling a buffer that requires gradients: it is saved and moved with its module, and no optimizer is given it.


def flagged_buffer(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``flagged-buffer`` sign; None where its registration is not found, or its gradient is read."""
    file, cls, names = str(sign.facts["file"]), str(sign.facts["class"]), [str(n) for n in sign.facts["buffers"]]
    owner = bindings.class_around(bindings.tree(program.sources, file), int(sign.facts["line"]))
    if owner is None or any(_is_read(program.sources, name) for name in names):
        return None
    found = [(call, made) for call in _registering(owner, names) if (made := _made(owner, call)) is not None]
    if not found:
        return None
    places = [
        (bindings.frame_of(program.sources, file, c), bindings.frame_of(program.sources, file, made))
        for c, made in found
    ]
    edits = [e for at, made in places for e in _as_parameter(program.sources, at, made)]
    name, whose = optimizer_of(program.optimizers, sign), listing([f"`{n}`" for n in names])
    one = len(names) == 1
    note = f"`parameters()` finds {whose}: an optimizer that is given all of the module's trains "
    note += f"{'it' if one else 'them'}"
    title = "register it as a parameter" if one else "register them as parameters"
    weight = likely(0.92)  # that they get gradients nobody uses is seen; that they are to learn is not
    headline = f"{whose} of `{cls}` {'is a buffer' if one else 'are buffers'} with gradients, in no optimizer"
    text = "`parameters()` does not list buffers. They are moved and saved with the module and keep their values, and "
    text += "their `.grad` grows, as no `zero_grad()` clears it."
    spans = (
        *(span("cause", made, "made to get gradients") for _, made in places[:2]),
        *(span("related", at, "registered as what does not learn") for at, _ in places[:2]),
        *span_of("related", sign.stack, "gives them gradients that nobody uses"),
    )
    remedies = tuple(together(edits, title, "unsafe", note))
    because = f"the loss gave {whose} gradients in each of {sign.count} calls, and nothing has changed or cleared "
    because += f"{'it' if one else 'them'}; {name} holds other parameters of the same model"
    return Finding(*weight, headline, text, spans, remedies=remedies, because=because)


_REGISTERED = [
    [f"{{it}}.register_buffer({given})", "{it}.register_parameter({name}, {tensor})"]
    for given in ("{name}, {tensor}", "{name}, {tensor}, {_}", "{name}, {tensor}, persistent={_}")
]


def _as_parameter(sources: SourceTexts, at: Frame, made: Frame) -> list[dict[str, Any]]:
    """A buffer registered as a parameter, which requires gradients by itself."""
    call = bindings.call_at(sources, made)
    flagged = call is not None and keyword(call, "requires_grad") is not None
    return [
        edit_at("rewrite", at, pairs=_REGISTERED),
        *([edit_at("drop_keyword", made, name="requires_grad")] if flagged else ()),
        edit_at("rewrite", made, pairs=[["{it}", "{torch.nn.Parameter}({it})"]]),
    ]


def _registering(owner: ast.ClassDef, names: list[str]) -> Iterator[ast.Call]:
    """The calls that register these names, which may be put together: ``f"table_{name}"``."""
    for node in each(owner, ast.Call):
        if path_of(node.func).endswith(".register_buffer"):
            given = bindings.argument(node, 0, "name")
            if isinstance(given, ast.Constant):
                pattern = re.escape(str(given.value))
            elif isinstance(given, ast.JoinedStr):
                parts = (re.escape(str(v.value)) if isinstance(v, ast.Constant) else ".*" for v in given.values)
                pattern = "".join(parts)
            else:
                continue
            if any(re.fullmatch(pattern, name) for name in names):
                yield node


def _made(owner: ast.ClassDef, call: ast.Call) -> ast.expr | None:
    """The expression that makes the tensor and lets it require gradients; the only one that its name is bound to."""
    value = bindings.argument(call, 1, "tensor")
    if isinstance(value, ast.Name):
        function = bindings.function_around(owner, call.lineno)
        value = only(values_of(function or owner, value.id))
    return value if isinstance(value, ast.Call) and is_flagged(value) else None


def _is_read(sources: SourceTexts, name: str) -> bool:
    """Whether the program reads the gradient of an attribute of this name: it is wanted for itself."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and bindings.text_of(node.value).rpartition(".")[2].partition("[")[0] == name
        for _, node in bindings.everywhere(sources)
    )


# Telling layers in plain containers of a module: ``parameters()`` does not find them, so no optimizer has them.

MOST_CAUSES = 3
"""Places that a reader is sent to."""


@dataclass(frozen=True)
class _Container:
    """One container, and the expression that is assigned to the attribute."""

    cls: str
    attribute: str
    of_parameters: bool
    file: str
    value: ast.expr
    levels: tuple[str, ...] = ("",)
    """What lies at each level of it, ``"dict"`` or ``"list"``, the container itself first."""
    within: tuple[tuple[ast.expr, int], ...] | None = ()
    """The containers that are written into it, with their levels; None where one of them is not found."""


def not_registered(program: Program, sign: Sign) -> Finding | None:
    """The finding for an ``unregistered`` sign; None where no assignment is found that was meant otherwise."""
    names: list[str] = []
    found: list[_Container] = []
    for facts in sign.facts.get("classes") or [sign.facts]:
        mine = _containers(program.sources, facts)
        found += mine
        # Which of them lie in a container of which nothing is told is not known.
        told = {c.attribute for c in mine} == {c["attribute"] for c in facts["containers"]}
        names += (facts.get("names") or sign.parameters) if mine and told else []
    if not found:
        return None
    name, whose = optimizer_of(program.optimizers, sign), folded(sorted(set(names)))
    places = [bindings.frame_of(program.sources, c.file, c.value) for c in found]
    group = _group(found[0].of_parameters and len(found[0].levels) == 1, found[0].value)
    note = f"`parameters()` finds {whose or 'them'}: an optimizer that is given all of the module's trains them"
    args = [a for c in found for a in _edits(program.sources, c)]
    remedy = Remedy("module_list", f"make it an {group}", "unsafe", note, args[0])
    if len(args) > 1:
        edits = [{"kind": "module_list", "args": a} for a in args]
        what = f"make each an {group}" if len(found) > 1 else f"make it an {group}, and each container in it"
        remedy = Remedy("several", what, "unsafe", note, {"edits": edits})
    classes = dict.fromkeys(c.cls for c in found)
    their = listing([f"`self.{c.attribute}`" for c in found]) if len(classes) == 1 else "attributes"
    attributes = f"{their} of {listing([f'`{cls}`' for cls in classes])}"
    one = len({(c.cls, c.attribute) for c in found}) == 1
    weight = likely(0.93)  # that no optimizer holds them is seen; they may be kept out of ``parameters()`` on purpose
    title = f"{attributes} {'is' if one else 'are'} not registered: no optimizer holds {whose or 'what is in it'}"
    text = "A module knows the modules and parameters that are its attributes, and those in a ModuleList, ModuleDict, "
    text += "ParameterList or ParameterDict. It does not look into a list or dict."
    spans = (
        *(
            span(
                "cause" if number < MOST_CAUSES else "related",
                at,
                f"{_what(c, found)}: `{c.cls}.parameters()` finds nothing in it",
            )
            for number, (at, c) in enumerate(zip(places, found, strict=True))
        ),
        *span_of("related", sign.stack, "gives them gradients that nobody uses"),
    )
    remedies = () if any(c.within is None for c in found) else (remedy,)
    because = f"the loss gave {whose or 'them'} gradients in each of {sign.count} calls; {name} holds other parameters "
    because += "of the same model"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _containers(sources: SourceTexts, facts: dict[str, Any]) -> list[_Container]:
    """The containers of one class that were to be found by its ``parameters()``."""
    cls = str(facts["class"])
    short = cls.rpartition(".")[2]
    return [
        _Container(cls, str(c["attribute"]), bool(c["parameters"]), *at, *_within(sources, at, short, c))
        for c in facts["containers"]
        for at in _plain(assigned_in(sources, short, f"self.{c['attribute']}"))
        if (int(c["count"]) > 1 or _is_filled(sources, at[0], short, at[1], f"self.{c['attribute']}"))
    ]


def _within(
    sources: SourceTexts, at: tuple[str, ast.expr], cls: str, facts: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[tuple[ast.expr, int], ...] | None]:
    levels = tuple(facts.get("levels") or ("",))
    owner = next(o for o in _classes(sources, at[0], cls) if is_within(at[1], o))
    inner = written_into(owner, f"self.{facts['attribute']}", at[1], len(levels))
    return levels, None if inner is None else tuple(inner)


def _edits(sources: SourceTexts, container: _Container) -> list[dict[str, Any]]:
    """What makes one container, and each in it, one that ``parameters()`` looks into."""
    last = len(container.levels) - 1
    return [
        {
            "place": place(bindings.frame_of(sources, container.file, value)),
            # What holds lists of parameters is a list of modules.
            "parameters": container.of_parameters and level == last,
            "mapping": container.levels[level] == "dict",
        }
        for value, level in ((container.value, 0), *(container.within or ()))
    ]


def _group(of_parameters: bool, value: ast.expr) -> str:
    kind = "Parameter" if of_parameters else "Module"
    return f"nn.{kind}{'Dict' if isinstance(value, ast.Dict | ast.DictComp) else 'List'}"


def _is_filled(sources: SourceTexts, file: str, cls: str, value: ast.expr, name: str) -> bool:
    """Whether a loop of the class makes what is in this container: it is to hold several, in this run there is one."""
    if isinstance(value, ast.ListComp | ast.DictComp):
        return True
    filled = value.elts if isinstance(value, ast.List) else value.keys if isinstance(value, ast.Dict) else [value]
    if filled:
        return False
    owners = _classes(sources, file, cls)
    loops = [node for owner in owners for node in each(owner, ast.For)]
    return any(_fills(node, name) for loop in loops for node in walked(loop))


def _fills(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return bindings.text_of(node.func) == f"{name}.append"
    return isinstance(node, ast.Subscript) and is_set(node) and bindings.text_of(node.value) == name


def _what(container: _Container, found: list[_Container]) -> str:
    """What an assignment gives the attribute; of several, in the arms of an ``if`` perhaps, one has run."""
    alike = [c for c in found if (c.cls, c.attribute) == (container.cls, container.attribute)]
    return "a plain container" + (f", one of {len(alike)} that `{container.attribute}` may be" if alike[1:] else "")


def _plain(assigned: list[tuple[str, ast.expr]]) -> list[tuple[str, ast.expr]]:
    """Of the values that a class assigns to an attribute, in the arms of an ``if`` perhaps, those that are written as a
    container; the only one, however it is written."""
    if len(assigned) < 2:
        return assigned
    written = ast.List | ast.ListComp | ast.Dict | ast.DictComp
    return [at for at in assigned if isinstance(at[1], written)] if len({file for file, _ in assigned}) == 1 else []


def _classes(sources: SourceTexts, file: str, cls: str) -> list[ast.ClassDef]:
    return [node for node in each(in_one_piece(bindings.tree(sources, file)), ast.ClassDef) if node.name == cls]


def assigned_in(sources: SourceTexts, cls: str, name: str) -> list[tuple[str, ast.expr]]:
    """The values that the class assigns to this attribute, each with its file."""
    return [(file, value) for file in sources for o in _classes(sources, file, cls) for value in values_of(o, name)]


def none_registered(sources: SourceTexts, frame: Frame, given: ast.expr) -> Finding | None:
    """The finding for a module of which ``parameters()`` gives nothing, and that makes layers in plain containers.

    Args:
        frame: the call that was given nothing.
        given: its argument, ``net.parameters()``.
    """
    given = next((b.value for b in behind(sources, [frame], given)), given)
    owner = path_of(given.func.value) if is_method_call(given, "parameters") else ""
    made = next(reversed(behind(sources, [frame], parse_expression(owner))), None)
    made_by = path_of(made.value.func) if made is not None and isinstance(made.value, ast.Call) else ""
    found = [
        (attribute, bindings.frame_of(sources, file, node.value), isinstance(node.value, ast.Dict | ast.DictComp))
        for file in sources
        for cls in _classes(sources, file, made_by)
        for node in each(cls, ast.Assign)
        if len(node.targets) == 1 and _makes_layers(bindings.tree(sources, file), node.value)
        if (attribute := bindings.text_of(node.targets[0])).startswith("self.")
    ]
    if not found:
        return None
    args: list[dict[str, Any]] = [
        {"place": place(at), "parameters": False, "mapping": mapping} for _, at, mapping in found
    ]
    names = listing([f"`{attribute}`" for attribute, _, _ in found])
    note = f"`{owner}.parameters()` then finds them"
    title = "register each of them"
    remedy = Remedy("several", title, "unsafe", note, {"edits": [{"kind": "module_list", "args": a} for a in args]})
    if len(args) == 1:
        group = "nn.ModuleDict" if found[0][2] else "nn.ModuleList"
        remedy = Remedy("module_list", f"make it an {group}", "unsafe", note, args[0])
    weight = likely(0.93)  # that no parameter is registered is seen; that these were to be is read off the source
    title = f"{names} of `{made_by}` {'is' if len(found) == 1 else 'are'} not registered: `{owner}` has no parameters"
    text = "A module knows the modules and parameters that are its attributes, and those in a ModuleList or "
    text += "ModuleDict. It does not look into a list or dict."
    spans = (
        *(
            span("cause", at, f"a plain container: `{made_by}` does not look into it")
            for _, at, _ in found[:MOST_CAUSES]
        ),
        span("failed", frame, f"`{owner}.parameters()` gives nothing"),
    )
    because = f"the optimizer found no parameter in `{owner}`"
    return Finding(*weight, title, text, spans, remedies=(remedy,), because=because)


def _makes_layers(tree: ast.Module, value: ast.expr) -> bool:
    """Whether a list or dict is written here, with calls of ``torch.nn``'s classes in it."""
    if not isinstance(value, ast.List | ast.ListComp | ast.Dict | ast.DictComp):
        return False
    made = (function_of(tree, n).rpartition(".") for n in each(value, ast.Call))
    return any(of == "torch.nn" and name[:1].isupper() and name != "Parameter" for of, _, name in made)


# Telling an attribute that is the result of an operation on a parameter: the module does not have the parameter.


def kept_result(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``kept-result`` sign; None where its place is not known."""
    cls, attribute = str(sign.facts["class"]), str(sign.facts["attribute"])
    assigned = assigned_in(program.sources, cls.rpartition(".")[2], f"self.{attribute}")
    made = innermost_user(sign.stack)
    ways = [(f, v) for f, v in assigned if len(assigned) == 1 or (made and f == made.file and covers(v, made.line))]
    whole = bindings.frame_of(program.sources, *ways[0]) if len(ways) == 1 else None
    made = whole or made
    if made is None:
        return None
    name = optimizer_of(program.optimizers, sign)
    weight = likely(0.93)  # what is kept, and that no optimizer has its origin, is seen; not that it is to be trained
    title = f"`self.{attribute}` of `{cls}` is computed from a parameter that no optimizer holds"
    text = "A module registers a `Parameter` that is assigned to an attribute. The operation on it gives a plain "
    text += f"tensor, so `{cls}.parameters()` does not find it. Gradients go to the parameter that was thrown away."
    spans = (
        span("cause", made, "a plain tensor with a graph, not a parameter"),
        *span_of("related", sign.other, "gives gradients to that parameter, which nobody uses"),
    )
    remedies = () if whole is None else (_remedy(whole, attribute),)
    because = f"that parameter got gradients in {sign.count} backward calls; {name} holds other parameters of the same "
    because += "model"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _remedy(whole: Frame, attribute: str) -> Remedy:
    title = "Make the parameter of the result, not the result of the parameter"
    note = f"`parameters()` finds `self.{attribute}`, and an optimizer that is given all of the module's trains it."
    return Remedy("make_leaf", title, "unsafe", note, {"place": place(whole), "name": f"self.{attribute}"})


# Telling a layer or a parameter that is made anew at each call.


@dataclass(frozen=True)
class _Anew:
    """``what`` is made anew, a ``kind`` of thing; ``whole`` is its assignment, ``taken`` the operation that takes it,
    ``made`` the expression that makes a layer."""

    what: str
    kind: str
    whole: Frame | None
    taken: Frame
    made: Frame | None = None


MOST_PLACES = 3


def made_anew(program: Program, sign: Sign) -> Finding | None:
    """The finding for a ``made-anew`` sign; None where no place of it is known."""
    lines = frames([f for line in sign.facts.get("lines", ()) for f in line])
    lines = lines or [f for f in [innermost_user(sign.stack)] if f is not None]
    seen: dict[str, _Anew] = {}
    for one in (one for at in lines if (one := _anew_at(program, at)) is not None):
        seen.setdefault(str(one.whole or one.taken), one)
    every = [*seen.values()]
    if not every:
        return None  # its parameters are made another way: of a result, perhaps
    first, further = every[0], every[1:]
    kind = first.kind if len({one.kind for one in every}) == 1 else "layer"
    shapes = listing([str(tuple(shape)) for shape in sign.facts["shapes"]])
    begins = "A layer that is made in a forward begins with new random weights at each call."
    if kind == "parameter":
        begins = "A parameter that is made in a function begins with its first value at each call."
    title = f"{first.what} is made again in each iteration: it never learns"
    if further:
        title = f"{len(every)} {kind}s are made again in each iteration: they never learn"
    text = f"{begins} Its gradients are thrown away with it, and no optimizer has it. Make it once, in `__init__`, and "
    text += "use it in `forward`."
    if further:
        text += f" They are {listing([f'{one.what} (line {(one.whole or one.taken).line})' for one in every])}."
    spans: list[Span] = []
    for one in every[:MOST_PLACES]:
        spans += span_of("cause", one.whole, f"a new {one.kind} at each call")
        spans.append(span("related" if one.whole is not None else "cause", one.taken, "takes its new weights"))
    spans += span_of("related", sign.other, "gives them gradients that nobody uses")
    note = "`parameters()` then lists its weights, and the optimizer trains them."
    named = f"make {'the ' + kind if not further else 'each ' + kind} once, in `__init__`"
    makers = [place(one.made) for one in every if one.made is not None]
    remedy = Remedy("make_once", named, "display", note)
    if len(makers) == len(every):
        remedy = Remedy("make_in_init", named, "unsafe", note, {"places": makers})
    because = f"at {sign.count} backward calls in a row there were new parameters of the shapes {shapes}; those of the "
    because += "call before were gone each time"
    # That its parameters are new each time and trained by nobody is seen; that they should be is not.
    return Finding(*likely(0.9), title, text, tuple(spans), remedies=(remedy,), because=because)


def _anew_at(program: Program, taken: Frame) -> _Anew | None:
    """What is made anew for the operation at this place."""
    call = bindings.call_at(program.sources, taken)
    name = bindings.text_of(call.func) if call is not None else ""
    bound = bindings.assignments(program.sources, taken, name)[:1] if re.fullmatch(r"(self\.)?\w+", name) else []
    for whole, value in bound:
        if is_made(value):
            return _Anew(f"`{name}`", "layer", whole, taken, _maker(program.sources, whole, value))
    if call is not None and is_made(call.func):
        what = f"the layer of `{short_code(program.sources, taken)}`"
        return _Anew(what, "layer", None, taken, _maker(program.sources, taken, call.func))
    found = _parameter_anew(program.sources, taken)
    return _Anew(f"`{found[0]}`", "parameter", found[1], taken) if found is not None else None


def _maker(sources: SourceTexts, at: Frame, value: ast.expr) -> Frame | None:
    """The call that makes a layer in a method of a class with an ``__init__``, of nothing that the method binds."""
    value = _unmoved(value)
    scope, around = bindings.function_at(sources, at), bindings.class_around(bindings.tree(sources, at.file), at.line)
    begins = around is not None and any(n.name == "__init__" for n in each(around, ast.FunctionDef))
    if not begins or scope is None or plain_names(value) & (bound_names(scope) - {"self"}):
        return None
    return bindings.frame_of(sources, at.file, value)


def _parameter_anew(sources: SourceTexts, taken: Frame) -> tuple[str, Frame] | None:
    """The only name that the function around an operation gives to a new ``Parameter`` above it, and where; None where
    the program may read its gradient itself."""
    scope = bindings.function_at(sources, taken)
    given = {n.id for n in each(scope, ast.Name) if is_set(n)}
    bound = [(name, bindings.assignments(sources, taken, name)[:1]) for name in sorted(given)]
    found = only([(name, at) for name, values in bound for at, value in values if makes_parameter(value)])
    if scope is None or found is None or any(n.attr == "grad" for n in each(scope, ast.Attribute)):
        return None
    return None if _is_read(sources, found[0]) else found


def makes_parameter(value: ast.expr) -> bool:
    return any(last_word(n.func) == "Parameter" for n in each(value, ast.Call))


def is_made(value: ast.expr) -> bool:
    """Whether this makes an object of a class, or moves one that is made here: ``nn.Linear(8, 1).to(x.device)``."""
    value = _unmoved(value)
    return isinstance(value, ast.Call) and path_of(value.func).rpartition(".")[2][:1].isupper()


def _unmoved(value: ast.expr) -> ast.expr:
    """What makes an object, without the calls that move it to a device."""
    while is_method_call(value, "to", "cuda"):
        value = value.func.value
    return value
