"""GD506: the backward of a torch.autograd.Function returned gradients of the wrong number, shape or type."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from graphdoc.causes.base import Page
from graphdoc.evidence import OTHER_DERIVATIVE, Frame, Sign, SourceTexts
from graphdoc.finding import Finding, Remedy, remedy_at
from graphdoc.messages.recognise import Match
from graphdoc.model import Span
from graphdoc.program import bindings, custom_functions
from graphdoc.program.custom_functions import reaches_end, returned_values
from graphdoc.program.exception import called_by_autograd
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import span, span_of
from graphdoc.remedies.alongside import for_each_term
from graphdoc.remedies.gradients import Returned, fitted_gradient, padded, returned_gradients
from graphdoc.source.paths import only
from graphdoc.source.scopes import own_nodes
from graphdoc.story.gradients import times
from graphdoc.story.wording import folded

PAGE = Page(
    code="GD506",
    title="The backward of a custom Function returned gradients that do not fit its inputs",
    families=("custom-function", "invalid-gradient", "silent"),
    what_happened="""\
A `torch.autograd.Function` was written, its forward works, and its backward returns something that cannot be the
gradients of its inputs: too few or too many values, a gradient for an argument that is no tensor, a gradient of
another shape than the input, or something that is no tensor at all.

The failing line in the traceback is some `backward()` of the training loop. The line to change is a `return` in the
class.""",
    why="""\
`backward(ctx, *grad_outputs)` receives one gradient for each *output* of forward, and has to return one value for
each *argument* of forward after `ctx`, in the same order: a tensor of the argument's shape, or None where no gradient
is wanted or possible (numbers, flags, constant tensors). PyTorch checks this when the function's node is run:

- *returned an incorrect number of gradients (expected 2, got 1)*: an argument was added to forward and not to
  backward. Additional Nones at the end are allowed;
- *returned a gradient different than None at position 2, but the corresponding forward input was not a Variable*:
  return None there. Positions in this message count from 1;
- *returned an invalid gradient at index 0 - got [5] but expected shape compatible with [3]*: transposed factors, or
  the broadcasting of forward was not summed back. Indices count from 0;
- *expected Variable or None (got float)*: a gradient is a number or an array;
- *backward() takes 2 positional arguments but 3 were given*: forward has two outputs, so backward gets two gradients.

A `backward` that is a method of a `torch.nn.Module` is never called: autograd knows the operations of its forward.

A backward that returns nothing, or None for an input that is to learn (the step size of a quantizer, say), raises no
error: `.grad` stays None.

PyTorch does not notice a wrong *value* of the right shape. graphdoc measures it in a second run, and
`torch.autograd.gradcheck` in double precision finds it. A backward that ignores the gradient that it is given loses
every factor on the loss: a weight, `1 / accumulation_steps`, a `GradScaler`'s scale. A Function that reverses, scales
or clips a gradient, or that passes it through steps, does so on purpose.""",
    example="""\
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor  # forward took x and factor""",
    use_instead="""\
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None  # a number has no gradient""",
    fix_safety="""\
Safe for arguments that are no tensors, or tensors that never require gradients: None is their gradient.

Unsafe for a tensor that should learn: None means that it gets no gradient through this function, without any message.
Compute its gradient, and use `ctx.needs_input_grad[i]` to skip the work where nobody asks for it. The patch has a
placeholder where backward does not compute the gradient of an input that is to learn.

Unsafe where a gradient only has a dimension of size 1 too many or too few, or is the transpose of what it should be,
written as a product: the numbers stay, and their shape is made to fit.

Unsafe where what backward has computed is returned at last: more is trained than before, and whether the formulas are
right, `torch.autograd.gradcheck` can tell.

For another shape that does not fit, look at the formula: for `y = x @ w.T` they are `grad @ w` and `grad.T @ x`. Where
forward broadcast an argument, sum its gradient over the dimensions that were added: `grad.sum_to_size(x.shape)`.""",
    not_this="""\
- `ctx.saved_tensors` is missing, wrong or was used for something that is no tensor: `custom-function-saved-misuse`.
- *Function ... returned nan values in its 0th output*: the shapes are right and the values are not.
- A hook, not a Function, returned the wrong thing: the message says *hook*.""",
    references=(
        ("Extending torch.autograd", "notes/extending.html#extending-torch-autograd"),
        ("torch.autograd.Function", "autograd.html#function"),
        ("torch.autograd.gradcheck", "generated/torch.autograd.gradcheck.gradcheck.html"),
    ),
)


_COUNT, _OTHER, _SHAPE = "function-gradient-count", "function-grad-not-none", "invalid-gradient-shape"
_SIGNATURE = "function-forward-missing-ctx"
_NO_TENSOR = "function-grad-not-variable"


def recognise(program: Program) -> Finding | None:
    """PyTorch names the Function's node, ``AddPriorBackward``: the place is the return in ``AddPrior.backward``."""
    said = _said(program)
    if said is None:
        return _untold(program) or _measured(program) or _uncalled(program)
    if re.search(r"Backward\d+$", _function(said)):
        return None  # a node of PyTorch's own, whose classes are numbered
    return _told(program, said)


def _said(program: Program) -> Match | None:
    """What PyTorch says of a backward's gradients; of its arguments, where autograd itself has called it."""
    found = program.message(_COUNT) or program.message(_OTHER) or program.message(_SHAPE)
    takes = program.message(_SIGNATURE)
    if takes is not None and takes.fields["fn"].endswith(".backward") and called_by_autograd(program.raised):
        found = found or takes
    return found or program.message(_NO_TENSOR)


def _function(said: Match) -> str:
    """The Function's node, or its backward, as the message names it; empty where it does not."""
    return said.fields["fn"] if said.id != _NO_TENSOR else ""


def _told(program: Program, said: Match) -> Finding:
    cls = re.sub(r"Backward\d*$", "", _function(said).removesuffix(".backward"))
    function = only([f for f in custom_functions.used(program.evidence.extras) if cls in (f.name, "")])
    at = _backward(program.sources, cls, function)
    returns = _returns(program.sources, at, _count(said, "got"))
    forward = custom_functions.forward_of(program.sources, *at) if at else None
    applied = function.apply if function is not None else None
    checked = "noticed when this backward runs" if said.id == _SIGNATURE else _CHECKED
    title = _title(cls, said.id == _SIGNATURE)
    text = _EXPLAINED[said.id].format(name=cls or "The Function")
    spans = (
        *_marks(program, said, at, returns),
        *_arguments(program.sources, said, at, forward),
        *span_of("created", applied, f"`{cls}` is applied here"),
        *program.raised_span(checked),
    )
    facts = (program.first_line if said.id != _NO_TENSOR else "a gradient that is no tensor",)
    remedies = _remedies(program, said, at, returns, function)
    return Finding(*program.weight(0.95, Proof.RAISED.confidence), title, text, spans, facts, remedies)


def _seen(program: Program, kind: str) -> tuple[Sign, custom_functions.Used, Method] | None:
    """A sign of this kind, the Function that it is about, and the backward of that."""
    sign = first_sign(program.signs, kind)
    function = next(custom_functions.used(sign.facts), None) if sign is not None else None
    at = custom_functions.backward_of(program.sources, function) if function is not None else None
    return (sign, function, at) if sign is not None and function is not None and at is not None else None


def _untold(program: Program) -> Finding | None:
    """No error: for an input that leads to what is to be trained backward returns None, and it has computed a gradient
    for it or gives one to another input: at a Function that gives none to any the graph is meant to end."""
    seen = _seen(program, "unreturned")
    if seen is None:
        return None
    sign, function, at = seen
    returns = _returns(program.sources, at, 1)
    statements = _return_statements(at[1])
    written = [bindings.text_of(v) for v in returned_values(statements[0] if statements else None)]
    nothing = not any(n.value is not None for n in statements)
    dropped = [i for i, needed in enumerate(function.needs) if needed and written[i : i + 1] in ([], ["None"])]
    inputs = _inputs(program.sources, at, function, 0)
    if len(returns) != 1 or not dropped or (written and len(written) != len(inputs)):
        return None
    remedies = returned_gradients(Returned(returns[0], at[1], statements[0] if statements else None, inputs, function))
    if not remedies and sum(function.needs) == len(dropped):
        return None
    what = "nothing" if nothing else "None for " + " and ".join(f"`{inputs[i]}`" for i in dropped)
    whose = folded(sign.parameters, beside=program.names) or "what it is applied to"
    gets = "get" if len(sign.parameters) > 1 else "gets"
    so = "computes a gradient and does not return it" if remedies else "computes no gradient for it"
    rest = "" if remedies else " Where nothing is to learn there, `requires_grad_(False)` says so."
    weight = Proof.SOURCE.at(0.9 if remedies else 0.5, nothing)  # that None was not meant is read off an unread value
    title = f"`{function.name}.backward` returns {what}: {whose} never {gets} a gradient"
    text = f"PyTorch takes None for the gradient of an input as zero and raises no error. `{function.name}.backward` "
    text += f"{so}.{rest}"
    spans = (
        span("cause", returns[0], f"returns {what}"),
        *span_of("created", function.apply, "is applied here"),
        *span_of("related", sign.other, "leaves `.grad` None"),
    )
    because = f"this loss depends on {whose}, its gradient ends at `{function.name}`, and no step had one"
    return Finding(*weight, title, text, spans, remedies=remedies, because=because)


def _measured(program: Program) -> Finding | None:
    """No error: the gradient of the loss is another one, and so is the derivative of this Function's forward."""
    seen = _seen(program, OTHER_DERIVATIVE)
    if seen is None or seen[0].facts["functions"][0].get("twice"):
        return None
    sign, function, at = seen
    gives, whose = times(sign.facts["functions"][0]), folded(sign.parameters) or "what it was computed from"
    returns = _returns(program.sources, at, 0)
    title = f"`{function.name}.backward` gives {gives} the derivative of its forward"
    told = "its inputs were moved, and its outputs did not change as its backward says"
    label = "returns another gradient"
    if deaf := not sign.facts["functions"][0]["slope"]:
        label = "returns the same for any gradient"
        title = f"`{function.name}.backward` ignores the gradient that it is given"
        told = "it was given a gradient that is not 1, and returned the same as for any: factors on the loss are lost"
    weight = likely(0.85)  # that it is another gradient is measured; that it is none on purpose is not
    text = f"At {sign.count} steps {told}. The gradient of {whose} is not that of the loss."
    spans = (
        *(span("cause", f, label) for f in returns[:3]),
        *span_of("created", function.apply, "is applied here"),
        *span_of("related", sign.other, "takes it for the gradient of the loss"),
    )
    return Finding(*weight, title, text, spans, remedies=_multiplied(at, returns) if deaf else ())


def _multiplied(at: Method, returns: list[Frame]) -> tuple[Remedy, ...]:
    """Multiply what the only return gives by the one gradient that arrives, where that is a name."""
    statements, taken = _return_statements(at[1]), at[1].args.args[1:]
    if len(statements) != 1 or len(taken) != 1 or len(returns) != 1:
        return ()
    written = [bindings.text_of(v) for v in returned_values(statements[0])]
    simple = all(isinstance(v, ast.Name | ast.Constant) for v in returned_values(statements[0]))
    values = [v if v == "None" else f"{v} * {taken[0].arg}" for v in written]
    if not simple or all(v == "None" for v in written):
        return ()
    title = f"multiply what it returns by `{taken[0].arg}`"
    note = "A loss that is weighed or averaged then weighs this gradient too."
    return remedy_at(returns[0], "return_values", title, "unsafe", note, values=values)


def _uncalled(program: Program) -> Finding | None:
    """No error: a module has a backward, which would give another gradient than the one that is used."""
    seen = _seen(program, "uncalled-backward")
    if seen is None:
        return None
    sign, module, at = seen
    head = replace(bindings.frame_of(program.sources, *at, "backward"), column=0)
    weight = likely(0.85)  # that nobody calls it is seen; that somebody should is not
    title = f"autograd never calls `{module.name}.backward`, which would give another gradient"
    text = f"`{module.name}` is a `Module`. PyTorch differentiates its forward operation by operation, and a method of "
    text += "the name `backward` is nothing to it. Only that of a `torch.autograd.Function` takes the place of a "
    text += "derivative."
    spans = (
        span("cause", head, "nothing calls this method"),
        *span_of("created", module.apply, "the module runs here"),
        *span_of("related", sign.other, "uses the derivative of its forward"),
    )
    because = f"at {sign.count} steps it was called by itself, and gave {times(sign.facts['functions'][0])} the "
    because += "gradient that autograd gives; the program never calls it"
    return Finding(*weight, title, text, spans, remedies=(_AS_FUNCTION,), because=because)


_AS_FUNCTION = Remedy(
    "display",
    "Make it a `torch.autograd.Function` with static `forward(ctx, x)` and `backward(ctx, grad)`",
    "display",
    "The module's forward then returns what the `apply` of that Function gives.",
)
_CHECKED = "the gradients are checked when this backward runs"
Method = tuple[str, ast.FunctionDef]


def _backward(sources: SourceTexts, cls: str, function: custom_functions.Used | None) -> Method | None:
    """The backward of the Function: by its class, or the only one of the sources where the message names none."""
    if not cls:
        return only(bindings.methods_named(sources, "backward", "ctx"))
    if function is not None:
        return custom_functions.backward_of(sources, function)
    return bindings.method(sources, cls, "backward")


def _marks(program: Program, said: Match, at: Method | None, returns: list[Frame]) -> list[Span]:
    """The head of a backward that does not take what it is given; else what returns the gradients."""
    if said.id == _SIGNATURE and at is not None:
        label = f"takes {_counted(int(said.fields['n']), 'argument')}, and is given {said.fields['m']}"
        head = replace(bindings.frame_of(program.sources, *at, "backward"), column=0)
        return [span("cause", head, label)]
    label = "these are the gradients that do not fit" if len(returns) == 1 else "the gradients may come from here"
    if said.id == _COUNT and len(returns) == 1:
        label = f"{_counted(int(said.fields['got']), 'value')} returned"
    own = [n for n in _return_statements(at[1]) if n.lineno == returns[0].line] if at is not None else []
    if any(_is_list(n) for n in own):
        label = "a list counts as one value; it has to be a tuple"
    if any(n.value is None for n in own):
        label = "no value is returned here"
    if at is not None and returns and returns[0].line == bindings.frame_of(program.sources, *at, "backward").line:
        some = any(n.value is not None for n in _return_statements(at[1]))
        label = "it can end without a return" if some else "no value is returned here"  # None, counted as one
    frame = program.raised_at
    if not returns and frame is not None and frame.function == "backward":
        return [span("cause", frame, "raised in this backward")]
    return [span("cause", f, label) for f in returns[:3]]


def _arguments(sources: SourceTexts, said: Match, at: Method | None, forward: ast.FunctionDef | None) -> list[Span]:
    """The forward whose arguments the gradients are for."""
    if at is None or forward is None or said.id not in (_COUNT, _OTHER):
        return []
    head = replace(bindings.frame_of(sources, at[0], forward, "forward"), column=0)
    label = "the arguments"
    if said.id == _COUNT:
        after = " after `ctx`" if custom_functions.takes_ctx(sources, at[0], forward) else ""
        label = f"forward has {_counted(int(said.fields['expected']), 'argument')}{after}"
    return [span("related", head, label)]


def _title(cls: str, takes: bool) -> str:
    if takes:
        return f"`{cls}.backward` does not take one gradient for each output of its forward"
    return f"`{cls}.backward` returned gradients that do not fit its inputs" if cls else PAGE.title


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("s" if number != 1 else "")


_EXPLAINED = {
    _COUNT: "`{name}.backward` has to return one value for each argument that `{name}.apply` is given, in the same "
    "order: a gradient, or None for what has none.",
    _OTHER: "An argument of `{name}.forward` is no tensor and cannot have a gradient: return None in its place.",
    _SHAPE: "A gradient has to have the shape of the argument that it belongs to. Most often the order in "
    "`{name}.backward` is wrong, a factor is transposed, or what forward broadcast was not summed back.",
    _SIGNATURE: "`{name}.backward` gets `ctx` and one gradient for each output of forward; its signature has to take "
    "them.",
    _NO_TENSOR: "A gradient has to be a tensor, or None; a number or an array is neither.",
}


def _remedies(
    program: Program, said: Match, at: Method | None, returns: list[Frame], function: custom_functions.Used | None
) -> tuple[Remedy, ...]:
    """What each place that returns is to return; nothing where the source does not show what it does return."""
    if at is None or said.id == _SIGNATURE or (len(returns) != 1 and said.id != _COUNT):
        return ()
    inputs = _inputs(program.sources, at, function, _count(said, "expected"))
    found = []
    for place in returns:
        statement = next((n for n in _return_statements(at[1]) if n.lineno == place.line), None)
        values = returned_values(statement)
        if _count(said, "got") not in (0, len(values) if values and not _is_list(statement) else 1):
            return ()
        found.append(Returned(place, at[1], statement, inputs, function))
    if len(found) != 1:
        return for_each_term([padded(one) for one in found], "in each of the returns")
    if said.id == _SHAPE:
        return returned_gradients(found[0]) or fitted_gradient(program.raised, returns)
    no_tensor = int(said.fields["index"]) - 1 if said.id == _OTHER else -1
    return returned_gradients(found[0], no_tensor) or (padded(found[0]) if said.id == _COUNT else ())


def _inputs(sources: SourceTexts, at: Method, function: custom_functions.Used | None, expected: int) -> tuple[str, ...]:
    """The names of the arguments that forward was given, empty ones where it does not name them."""
    forward = custom_functions.forward_of(sources, *at)
    names: list[str] = []
    if forward is not None:
        names = custom_functions.inputs_of(forward, custom_functions.takes_ctx(sources, at[0], forward))
    count = expected or (len(function.needs) if function is not None else 0) or len(names)
    return tuple(names[:count] if len(names) >= count else [""] * count)


def _count(said: Match, name: str) -> int:
    return int(said.fields[name]) if said.id == _COUNT else 0


def _is_list(statement: ast.Return | None) -> bool:
    return statement is not None and isinstance(statement.value, ast.List)


def _return_statements(function: ast.FunctionDef) -> list[ast.Return]:
    return sorted((n for n in own_nodes(function) if isinstance(n, ast.Return)), key=lambda n: n.lineno)


def _returns(sources: SourceTexts, at: Method | None, got: int) -> list[Frame]:
    """What in a backward returns so many values, where their number is known; the backward itself for its end."""
    if at is None:
        return []
    file, function = at
    nodes = _return_statements(function)
    fitting = [n for n in nodes if not (got and isinstance(n.value, ast.Tuple) and len(n.value.elts) != got)]
    end = [bindings.frame_of(sources, file, function, "backward")]
    if not fitting and got == 1 and reaches_end(function.body):
        return end
    return [bindings.frame_of(sources, file, n, function.name) for n in fitting or nodes] or end
