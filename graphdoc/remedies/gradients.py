"""Gradients of another form: a loss with several elements, a custom Function's result, a draw, a gradient of None."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphdoc.evidence import Cut, Frame, Raised, SourceTexts
from graphdoc.finding import Remedy, edit_at, remedy_at, together
from graphdoc.program import bindings
from graphdoc.program.asked_gradients import Unset, Why
from graphdoc.program.bindings import call_at, made_of, source_at, text_of
from graphdoc.program.carried_names import bound_names
from graphdoc.program.custom_functions import InputGradients, Used, class_of_kept, input_gradients, returned_values
from graphdoc.program.exception import field_of
from graphdoc.program.observed import Program
from graphdoc.program.spans import in_function, innermost, place, tensor_named, user_line, where
from graphdoc.remedies.fix_places import applies, left_open, to_finish
from graphdoc.remedies.open_derivatives import open_gradients
from graphdoc.source.expressions import Use, is_one_of_many, use_of
from graphdoc.source.module import each, is_method_call, receiver_of, walked
from graphdoc.source.paths import is_name, last_word, only
from graphdoc.source.places import Place

# One number of a loss with several elements: their mean, or their sum; and whether they have their weights already.

_WEIGHING = ("MulBackward", "DivBackward")


def reduced(
    sources: SourceTexts, frame: Frame | None, output: ast.expr | None, inner: bool, name: str, op: str = ""
) -> tuple[Remedy, ...]:
    """The mean before the call, or where the loss is computed; the sum of what ``autograd.grad`` differentiates
    (``inner``). ``output`` is what is differentiated, as it is written, ``name`` its name where it has one, ``op`` the
    node of the operation that made it."""
    if inner:
        title = "Differentiate the sum of the elements"
        note = "Where each element depends on its own row of the input alone, the gradient of the sum holds the "
        note += "derivative of each."
        return remedy_at(frame, "reduce_loss", title, "unsafe", note, method="sum")
    equal = "Every element counts equally, zeros too, and the step does not grow with their number."
    computed = _read_on(sources, frame, name)
    weighed = op.startswith(_WEIGHING) or _is_weighed(sources, frame, output)
    left = "whether the elements are to be averaged or added up, no run tells" * weighed
    number, mean = frame if _read_as_number(sources, frame, name) else None, f"{name} = {name}.mean()"
    title = f"Average `{name}` before the backward, for what reads it as a number as well"
    first = remedy_at(number, "add_statement", title, "unsafe", equal, statement=mean, before=True)
    second = remedy_at(frame, "reduce_loss", "Average the loss before the backward", "unsafe", equal, method="mean")
    title = f"Average the loss where it is computed, at {where(computed)}" if computed is not None else ""
    note = f"{equal} What reads `{name}` later reads the mean."
    last = remedy_at(computed, "reduce_loss", title, "unsafe", note, method="mean")
    return tuple(replace(r, open=left) for r in (*first, *second, *last))


def _read_as_number(sources: SourceTexts, frame: Frame | None, name: str) -> bool:
    """Whether the function goes on to read the name as one number (``loss.item()``), which several lines may assign."""
    scope = bindings.scope_at(sources, frame)
    if frame is None or not name or len(bindings.assignments(sources, frame, name)) < 2:
        return False
    calls = [n for n in each(scope, ast.Call) if n.lineno > frame.line]
    return any(bindings.text_of(n) in (f"{name}.item()", f"float({name})") for n in calls)


def _is_weighed(sources: SourceTexts, frame: Frame | None, output: ast.expr | None) -> bool:
    """Whether what is differentiated is made by a product or a quotient, or of terms that were put together: its
    elements may have their weights already."""
    scope = bindings.scope_at(sources, frame)
    if output is None:
        return False
    return any(_weighs(e) for e in made_of(scope, output, most=2).expressions)


def _weighs(node: ast.expr) -> bool:
    while True:
        if isinstance(node, ast.BinOp):
            return isinstance(node.op, ast.Mult | ast.Div) or _weighs(node.left) or _weighs(node.right)
        if isinstance(node, ast.UnaryOp):
            node = node.operand
        elif isinstance(node, ast.Call) and last_word(node.func) in ("stack", "cat", "mul", "div"):
            return True
        elif is_method_call(node):
            node = node.func.value
        else:
            return False


def _read_on(sources: SourceTexts, frame: Frame | None, name: str) -> Frame | None:
    """The value that a name is given in the function of the call, in one place alone, where more than the call reads
    it: to log it, say, as the one number that it is meant to be."""
    made = bindings.assignments(sources, frame, name) if frame is not None and name else []
    scope = bindings.scope_at(sources, frame)
    if frame is None or len(made) != 1:
        return None
    lines = {n.lineno for n in each(scope, ast.Name) if is_name(n, name)}
    value = made[0][1]
    given = [n for n in each(scope, ast.Assign) if n.value is value]
    if not given or not is_name(given[0].targets[0], name) or len(lines - {given[0].lineno, frame.line}) < 1:
        return None
    return bindings.frame_of(sources, frame.file, value)


# A weight for one number, where the program makes it with a dimension: made without one where it is made.

_DEEPEST = 4
"""Names and operators from the weights back to the one call that makes them."""
_NUMBERED = ("Tensor", "FloatTensor", "tensor")
"""``torch.Tensor`` and ``torch.FloatTensor`` make numbers of the default type of a list; ``torch.tensor`` keeps its."""
_SIZED = ("ones", "zeros")


def maker(sources: SourceTexts, frame: Frame | None, given: ast.expr | None) -> tuple[Frame, ast.Call] | None:
    """The one call that makes all weights, found through names, signs and moves to a device."""
    made = _makers(sources, frame, given, 0) if frame is not None and given is not None else []
    calls = {f.extent: (f, call) for f, call in made if call is not None}
    return next(iter(calls.values())) if len(calls) == 1 and all(call is not None for _, call in made) else None


def as_number(sources: SourceTexts, made: tuple[Frame, ast.Call] | None) -> tuple[Remedy, ...]:
    """The weights made without a dimension where they are made with one."""
    given = only(made[1].args) if made is not None else None
    if made is None or given is None:
        return ()
    at, call = made
    maker = last_word(call.func)
    number = _number(given.elts[0]) if isinstance(given, ast.List) and len(given.elts) == 1 else None
    if number is None and maker not in (*_SIZED, "tensor"):
        return ()
    pair = ["1", "()"] if maker in _SIZED else ["[{n}]", "{n}"] if maker == "tensor" else ["[{_}]", repr(number)]
    edits = [edit_at("rewrite", bindings.frame_of(sources, at.file, given), pairs=[pair])]
    if maker not in (*_SIZED, "tensor"):
        torch = bindings.text_of(call.func).removesuffix(maker)
        edits.append(edit_at("use_instead", at, operand=f"{torch}{maker}", name=f"{torch}tensor", inside=True))
    note = "The number stays; it has no dimension, as what it weighs. What else reads the tensor of "
    note += f"`{bindings.text_of(call)}` gets a number, too."
    return tuple(together(edits, f"Make it a number without a dimension, at {where(at)}", "unsafe", note))


def _makers(sources: SourceTexts, frame: Frame, value: ast.expr, depth: int) -> list[tuple[Frame, ast.Call | None]]:
    """The calls that an expression of one tensor goes back to; None for what is no such call."""
    unknown: list[tuple[Frame, ast.Call | None]] = [(frame, None)]
    if depth > _DEEPEST or not isinstance(value, ast.Name | ast.Attribute | ast.UnaryOp | ast.BinOp | ast.Call):
        return unknown
    if isinstance(value, ast.Name | ast.Attribute):
        name = bindings.text_of(value)
        bound = bindings.assignments(sources, frame, name)
        # ``w = w.cuda()`` makes nothing new.
        fresh = [(f, v) for f, v in bound if not any(bindings.text_of(n) == name for n in walked(v))]
        return [m for f, v in fresh for m in _makers(sources, f, v, depth + 1)] or unknown
    if isinstance(value, ast.UnaryOp):
        return _makers(sources, frame, value.operand, depth + 1)
    if isinstance(value, ast.BinOp):
        sides = [s for s in (value.left, value.right) if _number(s) is None]
        return _makers(sources, frame, sides[0], depth + 1) if len(sides) == 1 else unknown
    if last_word(value.func) in (*_NUMBERED, *_SIZED):
        return [(bindings.frame_of(sources, frame, value), value)]
    inner = receiver_of(value)
    moved = last_word(value.func) in ("to", "cuda", "cpu", "float", "double", "type")
    return _makers(sources, frame, inner, depth + 1) if moved and inner is not None else unknown


def _number(value: ast.expr) -> float | None:
    """The number that an expression is written as, with its sign."""
    try:
        number = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError):
        return None
    return float(number) if isinstance(number, int | float) else None


# A gradient of the right numbers and the wrong shape: what turns the one shape into the other.

_MESSAGE = "invalid-gradient-shape"


def fitted_gradient(raised: Raised | None, returns: Sequence[Frame]) -> tuple[Remedy, ...]:
    """Give the gradient the shape that PyTorch's message asks for, where no number has to go or come for it.

    A dimension of size 1 is added or taken away; a matrix is turned where it is written as a product with a turned
    factor, whose other order gives the other shape.
    """
    got, wanted = (_sizes(field_of(raised, name, _MESSAGE)) for name in ("shape", "shape2"))
    index = field_of(raised, "index", _MESSAGE)
    if len(returns) != 1 or got is None or wanted is None or not index.isdigit():
        return ()
    steps = _ones(got, wanted)
    product = not steps and len(got) == 2 and wanted == got[::-1]
    if product:
        steps = ["t()"]
    if not steps:
        return ()
    title = f"return the gradient in the shape of its input, {list(wanted)} for {list(got)}, at {where(returns[0])}"
    note = "The numbers stay as they are computed; whether they are right, `torch.autograd.gradcheck()` can tell."
    return remedy_at(returns[0], "fit_gradient", title, "unsafe", note, index=int(index), steps=steps, product=product)


def _sizes(text: str) -> tuple[int, ...] | None:
    return tuple(int(n) for n in re.findall(r"\d+", text)) if text else None


def _ones(got: tuple[int, ...], wanted: tuple[int, ...]) -> list[str]:
    """The one call that adds or takes away dimensions of size 1; empty where that is not what is between the shapes."""
    for i in range(len(wanted)):
        if wanted[i] == 1 and wanted[:i] + wanted[i + 1 :] == got:
            return [f"unsqueeze({i})"]
    for i in range(len(got)):
        if got[i] == 1 and got[:i] + got[i + 1 :] == wanted:
            return [f"squeeze({i})"]
    return []


# A backward that returns too little, too much, or in another order than forward's inputs: what it is to return.


@dataclass(frozen=True)
class Returned:
    """A backward and where it returns what does not fit; ``statement`` is None where it comes to its end.

    ``inputs`` are the names of forward's arguments that it was given, ``function`` what the run saw of them.
    """

    place: Frame
    backward: ast.FunctionDef
    statement: ast.Return | None
    inputs: Sequence[str]
    function: Used | None

    @property
    def needs(self) -> tuple[bool, ...]:
        return self.function.needs if self.function is not None else ()

    @property
    def numbers(self) -> frozenset[int]:
        return self.function.numbers if self.function is not None else frozenset()


def returned_gradients(found: Returned, no_tensor: int = -1) -> tuple[Remedy, ...]:
    """Return for each input what backward computes for it; None for what is no tensor (``no_tensor``: this one).

    Nothing where all that would change is that None is added, or the values are written out as they are.
    """
    numbers = found.numbers | {no_tensor} - {-1}
    fits = input_gradients(found.backward, found.statement, found.inputs, found.needs, numbers)
    values = returned_values(found.statement)
    written = [bindings.text_of(v) for v in values]
    listed = found.statement is not None and isinstance(found.statement.value, ast.List)
    new = [*fits.values] if fits is not None else []
    if fits is not None and (listed or new[: len(written)] != written or {*new[len(written) :]} - {"None"}):
        told = ", ".join(fits.values)
        title = f"return `{told}`, a value for each input of forward"
        note = "Each input gets the gradient that is computed for it; whether the formulas are right, "
        note += "`torch.autograd.gradcheck()` can tell."
        asked = remedy_at(found.place, "return_values", title, "unsafe", note, values=list(fits.values))
        left = _open(found.inputs, fits) if [*fits.values] != written else ""
        return tuple(replace(r, open=left) for r in asked)
    untold = any(v == "None" and i < len(found.needs) and found.needs[i] for i, v in enumerate(written))
    if 0 <= no_tensor < len(values) and not listed and not untold:
        title = f"return None for {_named(found.inputs, no_tensor)}"
        note = "It is no tensor, and there is no gradient to return for it."
        written[no_tensor] = "None"
        return remedy_at(found.place, "return_values", title, "safe", note, values=written)
    return ()


def _named(inputs: Sequence[str], index: int) -> str:
    return f"`{inputs[index]}`" if index < len(inputs) and inputs[index] else "what is no tensor"


def _open(inputs: Sequence[str], fits: InputGradients) -> str:
    """Which value is whose gradient, where only the order says so."""
    if not fits.by_order:
        return ""
    pairs = [f"`{v}` is the gradient of `{i}`" for i, v in zip(inputs, fits.values, strict=True) if i in fits.by_order]
    return f"that {' and '.join(pairs)} is read from their order alone"


def padded(found: Returned) -> tuple[Remedy, ...]:
    """None for the missing gradients. It is safe where the run shows that the arguments without a value were no
    tensors."""
    values, expected = returned_values(found.statement), len(found.inputs)
    missing = set(range(len(values), expected))
    if not missing or all(bindings.text_of(v) == "None" for v in values):
        return ()
    wanting = {i for i in missing if i < len(found.needs) and found.needs[i]}
    if wanting:  # None at its place would end the error, and its gradient with it
        return _opened(found, wanting) if all(found.inputs) else ()
    which = [f"`{found.inputs[i]}`" for i in sorted(missing) if found.inputs[i]]
    told = ", ".join(which) if len(which) == len(missing) else "the arguments that have no gradient"
    plain = len(found.needs) == expected and missing <= found.numbers
    note = "These arguments get no gradient through this Function; right for constants and for what is no tensor."
    if plain:
        verb = "is" if len(missing) == 1 else "are"
        note = (
            f"{told[0].upper()}{told[1:]} {verb} no tensor in any call of this run, so there is no gradient to return."
        )
    title = f"Return None for {told}"
    return remedy_at(found.place, "pad_return", title, "safe" if plain else "unsafe", note, count=expected)


def _opened(found: Returned, wanting: set[int]) -> tuple[Remedy, ...]:
    """A place for each gradient that backward does not compute, though its input is to learn."""
    gradients, left = open_gradients(found.inputs, set(range(len(found.inputs))) - wanting, wanting)
    told = " and ".join(f"`{found.inputs[i]}`" for i in sorted(wanting))
    title = f"return the gradient with respect to {told} as well, which only you know"
    note = "`None` in its place would end the error, and no gradient would reach it."
    return to_finish(found.place, "pad_return", title, note, left, count=len(gradients), values=gradients)


# What mends a custom Function of the old style, which is called as an object.


def of_today(sources: SourceTexts, frame: Frame | None) -> tuple[Remedy, ...]:
    """Static methods and ``apply``, where the call of the object is in sight: ``Name(a)(x)``, or ``self.kept(x)``."""
    call = call_at(sources, frame)
    if frame is None or call is None:
        return ()
    if not isinstance(call.func, ast.Call):
        return _of_kept_object(sources, frame, call)
    name = text_of(call.func.func)
    title = f"Make the methods of `{name}` static, and call `{name}.apply(...)`"
    note = "What the object kept is handed to `forward` and kept in `ctx`; it gets no gradient, as before."
    return remedy_at(frame, "static_function", title, "safe", note)


def _of_kept_object(sources: SourceTexts, frame: Frame, call: ast.Call) -> tuple[Remedy, ...]:
    """The object is kept, and its class is known by what it was built from."""
    name = class_of_kept(sources, frame, text_of(call.func))
    if not name:
        return ()
    title = f"Make the methods of `{name}` static, and call `{name}.apply`"
    note = "What the object keeps stays where it is kept, and is handed to `forward`; it gets no gradient, as before."
    return remedy_at(frame, "static_function_kept", title, "safe", note, name=name)


# What can be done about a random draw on the loss's way: a draw that gradients pass, or its log-probability.

_WITHOUT = ("mixture_same_family.py", "von_mises.py")
"""Distributions without ``rsample`` whose ``sample`` draws from one that has it."""
_JOINT = ("independent.py", "multivariate_normal.py", "lowrank_multivariate_normal.py", "dirichlet.py")
"""Distributions whose ``log_prob`` is that of the whole last dimension."""


_OTHER_WAYS = "the loss could be weighed by the log-probability of the draw as well"


def draw_remedies(program: Program, cut: Cut) -> tuple[Remedy, ...]:
    """The patches for a cut that is a ``Distribution.sample()``, best first; none for another operation."""
    frame = innermost(cut.stack)
    drawn = bindings.call_at(program.sources, frame)
    if frame is None or not is_method_call(drawn, "sample"):
        return ()
    inside = [f for f in cut.stack if not f.user and "/torch/distributions/" in f.file.replace("\\", "/")]
    if not inside:
        return ()
    title = "Draw with `rsample()`, which lets gradients through"
    note = "The draw is the same number, written as a function of the distribution's parameters: gradients flow "
    note += "through it into them."
    same = remedy_at(frame if _reparametrised(inside) else None, "rsample", title, "unsafe", note)
    title = "keep the choice, and send the gradient of the probabilities past it"
    note = "The value stays. The gradient is that of the probabilities, which is not the one of the expected loss."
    hot = any(f.file.endswith(("one_hot_categorical.py", "bernoulli.py")) for f in inside)
    drawn_choice = hot or any(f.file.endswith("categorical.py") for f in inside)
    past = remedy_at(frame, "straight_through", title, "unsafe", note, hot=hot) if drawn_choice else ()
    same = *same, *(left_open(r, _OTHER_WAYS) for r in past if applies(program.sources, r))
    loss = program.raised_at
    if loss is None:
        return same
    title = "Weigh the loss by the log-probability of the draw"
    note = "The gradient is then the policy gradient (score function) of the expected loss; the loss's own value "
    note += "means nothing any more. Subtracting a baseline from the reward makes it less noisy."
    args = {"loss": place(loss), "summed": _summed(program.sources, program.evidence.extras, frame, loss, inside)}
    return (*same, *remedy_at(frame, "log_prob_surrogate", title, "unsafe", note, **args))


def is_scored(sources: SourceTexts, cut: Cut) -> bool:
    """Whether the program asks for the log-probability of the very draw: then it knows that the draw gives numbers, and
    the gradient goes by the log-probability."""
    frame = innermost(cut.stack)
    root = bindings.tree_at(sources, frame)
    if frame is None:
        return False
    bound = set(bound_names(sources, frame))
    calls = (n for n in each(root, ast.Call) if n.args and last_word(n.func) == "log_prob")
    return any(bound & {*bindings.names_in(n.args[0])} for n in calls)


def _reparametrised(inside: list[Frame]) -> bool:
    """Whether the distribution has ``rsample`` (``Distribution.sample`` calls it; ``Normal`` draws by itself)."""
    files = [f.file.replace("\\", "/").rsplit("/", 1)[-1] for f in inside]
    if set(files) & set(_WITHOUT):
        return False
    return files[-1] == "normal.py" or any(f.function.rsplit(".", 1)[-1] == "rsample" for f in inside)


def _summed(sources: SourceTexts, extras: dict[str, Any], drawn: Frame, loss: Frame, inside: list[Frame]) -> bool:
    """Whether ``log_prob`` gives a number for each element of what the loss counts as one decision."""
    if any(f.file.endswith(_JOINT) for f in inside):
        return False
    sample = next((s for n in bound_names(sources, drawn) if (s := _shape(extras, n)) is not None), None)
    if not sample:
        return False
    call = bindings.call_at(sources, loss)
    root = bindings.text_of(call.func.value) if is_method_call(call) else ""
    told = bindings.assignments(sources, loss, root)
    shapes = [_shape(extras, n.id) for n in each(told[0][1], ast.Name)] if told else []
    return sample not in shapes and sample[:-1] in shapes


def _shape(extras: dict[str, Any], name: str) -> tuple[int, ...] | None:
    known = tensor_named(extras, name)
    return known.shape if known is not None else None


# What may be done about a gradient that is None where it is read.

_TITLES = {
    Use.VALUE: "count `{read}` as zero where it is None",
    Use.SCALED: "leave out what has no gradient here",
    Use.GIVEN: "let `{read}` be zeros where it is None",
}
_NOTES = {
    Use.VALUE: "a parameter without a gradient counts with zeros; all others count as they do now",
    Use.SCALED: "only what has a gradient is changed here",
    Use.GIVEN: "the gradient is then what is put into it here, as it is for the others",
}


def remedies_for(program: Program, unset: Unset) -> tuple[Remedy, ...]:
    """Best first. None hides a gradient that was computed and thrown away."""
    source = source_at(program.sources, unset.read)
    node = source.node_expression(Place.of(unset.read))
    use = use_of(source, node) if node is not None else None
    if unset.why is Why.CLEARED:
        return _cleared_to_zeros(unset) if use is Use.GIVEN else _read_first(program, unset)
    if use is None or node is None:
        return ()
    # Where one tensor is asked for by its name, and nothing steps it, its gradient is what the program is after.
    wanted = not unset.parameter.owners and not is_one_of_many(source, node)
    if use is Use.VALUE and (unset.why is Why.UNCALLED or wanted):
        return ()
    if unset.why is Why.TAKEN and unset.last is unset.calls[-1]:
        return ()
    title = _TITLES[use].format(read=f"{unset.name}.grad")
    return (*remedy_at(unset.read, "grad_if_any", title, "safe", _NOTES[use]), *_zeros(unset))


def _cleared_to_zeros(unset: Unset) -> tuple[Remedy, ...]:
    """What is added to the gradient is for the step: it needs zeros to be added to, which the clearing left once."""
    note = "the gradients are zeros then, as they were before PyTorch 2.0, and what is added to them here is theirs"
    return _filled(unset, "clear the gradients to zeros instead of None", note)


def _read_first(program: Program, unset: Unset) -> tuple[Remedy, ...]:
    """Clear behind what reads the gradient, where both stand in one function."""
    clear = user_line(unset.clear)
    reader = in_function(program.raised_stack, clear) if clear is not None else None
    if clear is None or reader is None:
        return ()
    at = _beside(program.sources, clear, reader)
    title = "clear the gradients after they have been read"
    note = "the gradients stay until they have been read; the next backward call finds them cleared, as before"
    return remedy_at(clear, "move_statement", title, "unsafe", note, after=vars(at)) if at is not None else ()


def _beside(sources: SourceTexts, clear: Frame, reader: Frame) -> Place | None:
    """The statement around the reader that stands in the block of the clearing, behind it."""
    source = source_at(sources, clear)
    own = source.node_statement(Place.of(clear))
    if own is None:
        return None
    block, index = source.node_block(own)
    found = source.node_in(Place.of(reader), block[index + 1 :])
    return source.place(found) if found is not None else None


def _zeros(unset: Unset) -> tuple[Remedy, ...]:
    """Zeros instead of None, as ``zero_grad`` left them before PyTorch 2.0; they are only there after a gradient."""
    if unset.last is None or unset.why is not Why.LEFT_OUT:
        return ()
    note = (
        "the optimizer then steps what the loss does not reach by a gradient of zero: momentum and weight decay move it"
    )
    return _filled(unset, "let zero_grad() fill the gradients with zeros", note)


def _filled(unset: Unset, title: str, note: str) -> tuple[Remedy, ...]:
    """The call that cleared the gradient fills it with zeros; none where no call of the user's did."""
    return remedy_at(user_line(unset.clear), "set_keyword", title, "unsafe", note, name="set_to_none", value="False")
