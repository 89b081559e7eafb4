"""GD701: a parameter that the loss gives gradients to is in no optimizer."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace

from graphdoc.causes import links
from graphdoc.causes.base import Page
from graphdoc.evidence import BYPASSED, READ_PAST, Frame, Optimizer, Parameter, Sign, SourceTexts, optimizer_with
from graphdoc.finding import Finding, Remedy
from graphdoc.program import bindings
from graphdoc.program.gathered_parameters import are_initialised, are_updated_by_hand, is_left_by_choice, one_shot
from graphdoc.program.gradient_reads import gradient_is_read, gradients_are_read
from graphdoc.program.observed import Program
from graphdoc.program.optimizer_places import binding_behind, made
from graphdoc.program.parameter_paths import within
from graphdoc.program.proof import first_sign, likely, name_of
from graphdoc.program.spans import code_at, innermost_user, place, span, span_of
from graphdoc.program.tracker import one_return
from graphdoc.program.written_out import everywhere
from graphdoc.source.module import each, is_method_call
from graphdoc.source.paths import is_constant, last_word, path_of, with_items
from graphdoc.story import ungiven, unregistered
from graphdoc.story.wording import first_told, folded, listing, opening, optimizer_of

PAGE = Page(
    code="GD701",
    title="Parameters of a loss are in no optimizer",
    families=("silent",),
    what_happened="""\
The loss has parameters of its own: learned weights of its terms, a temperature, a classifier. `backward()` gives them
gradients. The optimizer was made from `model.parameters()` alone, so they keep their initial values, and as no
`zero_grad()` clears them, their `.grad` grows from step to step.

An iterator of parameters that was exhausted, by a sum for the log perhaps, leaves a group of the optimizer empty; where
it was all that the optimizer got, PyTorch says so: *optimizer got an empty parameter list*. Or a program puts an
iterator into a group itself, `group["params"] = net.parameters()`: the first `zero_grad()` or step uses it up. Or a
group was filled with parameters, and the line that hands it over is missing.

Or a tensor that requires gradients was registered as a buffer, which `parameters()` does not list.

Or a layer or a `Parameter` is made in `forward`: each call has a new one, with new values, that no optimizer has ever
seen. Or the first forward makes it and keeps it, when the optimizer has been made already.

Or an optimizer is given the parts of a model one by one, and one that is not frozen is missing; or the `.weight` and
`.bias` of each module, and a `Parameter` of another name is missing; or it was given the innermost layers, and not what
the modules around them have themselves. Or it is given a
network that another optimizer has already, in the place of its own. Or a new layer between trained ones, or an
`nn.Parameter` that no module has, is in no optimizer. Or somebody waits for what no step gives: the
gradients of a network are clipped, or a target network is loaded from it, and no optimizer holds it.

Or a layer has an adapter, `lm_head` with LoRA, and a fused loss reads `lm_head.weight` instead of calling it.

Or a codebook is looked up, `q = codebook(z)`, and used only as `z + (q - z).detach()`: a loss on that sum trains `z`.
""",
    why="""\
An optimizer updates what it was given and nothing else. `requires_grad=True` lets `backward()` compute a gradient; it
does not make anybody use it.""",
    example="""\
criterion = WeightedLoss()  # has nn.Parameters
optimizer = torch.optim.Adam(model.parameters())""",
    use_instead="""\
criterion = WeightedLoss()
optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()])""",
    fix_safety="""\
A codebook needs a loss on `q` itself, before the sum; where that goes is for the author to say, so it is not a
patch. Giving an optimizer more parameters is unsafe, because more is trained than before. Give the loss a group of its
own where it needs another learning rate or no weight decay. If it is not meant to learn, register it as a buffer.""",
    not_this="""\
- The optimizer holds older tensors in the place of these: `optimizer-holds-stale-parameters`.
- The parameters are in an optimizer and get no gradient: `cut-by-conversion`, `cut-by-detach`.
- A network is left out on purpose (a frozen backbone, a perceptual loss): that is no fault.""",
    references=(links.OPTIM,),
)


MOST_NAMED = 4
"""Parameters that are given to an optimizer one by one."""
_UNHELD = ("unheld-weight", "unheld-fresh", "unheld-bounded", "unheld-followed")
_WHY = {
    "unheld-bounded": ("whose gradients are clipped", "their gradients are clipped before each step"),
    "added": (
        "whose gradients are clipped",
        "nothing clears them: they add up in the norm by which those of the others are clipped",
    ),
    "unheld-followed": (
        "which a target network is copied from",
        "another network has been loaded from them again and again, with the same values each time",
    ),
    "between": (
        "between parameters that are trained",
        "they are in training mode, and what comes before and behind them is stepped",
    ),
    "drawn": ("whose values were drawn at random", "they are in training mode, and what comes before them is stepped"),
    "split": (
        "which lie beside submodules",
        "optimizers hold all parameters of the innermost modules, and none that a module with submodules has itself",
    ),
    "bare": (
        "made as `nn.Parameter` outside of any module",
        "no module has them, and the program reads no gradient itself",
    ),
}
"""Of each kind of sign: what somebody wants of these parameters, and what shows it."""


def recognise(program: Program) -> Finding | None:
    """What gets gradients, and is to learn by what the run or the source says, lies in no optimizer that is alive."""
    return first_told(
        program,
        ("unregistered", unregistered.not_registered),
        ("flagged-buffer", unregistered.flagged_buffer),
        ("made-anew", unregistered.made_anew),
        ("kept-result", unregistered.kept_result),
        ("empty-group", _used_up),
        (BYPASSED, unregistered.bypassed),
        ("suspect-ungiven", _ungiven),
        *((kind, _unheld) for kind in _UNHELD),
        ("ungiven", ungiven.in_no_optimizer),
    ) or _wrongly_given(program)


def _wrongly_given(program: Program) -> Finding | None:
    """An optimizer was given what another one has, or what is around a weight that is read by itself. Or it was made of
    nothing: its iterator was used up, or the module's layers lie in plain containers."""
    past = first_sign(program.signs, READ_PAST)
    if past is not None:
        return _read_past(program, past)
    sources, frame, sign = program.sources, program.raised_at, first_sign(program.signs, "passed-by")
    if sign is not None:
        return ungiven.given_another(program, sign)
    if program.message("optimizer-empty") is None:
        return None
    given = bindings.argument(bindings.call_at(sources, frame), 0, "params")
    if frame is None or given is None:
        return None
    used = one_shot(sources, program.parameters, program.raised.stack if program.raised else [frame], given)
    if used is None:
        return unregistered.none_registered(sources, frame, given)
    return ungiven.nothing_left(
        used,
        frame,
        f"`{used.name}` is an exhausted iterator: the optimizer gets nothing of `{used.module}`",
        "finds no parameter in it",
        "the optimizer was given an empty iterator",
    )


def _ungiven(program: Program, sign: Sign) -> Finding | None:
    return (
        ungiven.never_handed(program, sign)
        or ungiven.written_nowhere(program, sign)
        or ungiven.unfrozen_late(program, sign)
        or ungiven.made_late(program, sign)
        or ungiven.part_left_out(program, sign)
        or ungiven.beside_in_layer(program, sign)
        or ungiven.other_names(program, sign)
        or _in_training_mode(program, sign)
    )


def _in_training_mode(program: Program, sign: Sign) -> Finding | None:
    """Of a whole module beside the optimizer's: the program puts both into training mode in one function."""
    ready = sign.facts.get("loaded") or _comes_trained(program.sources)
    found = None if ready else _switched_beside(program.sources, program.parameters, sign.parameters)
    if found is None:
        return None
    mode, switched, beside = found
    owner = path_of(switched)
    name, whose = name_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    return Finding(
        *likely(0.9),  # that nobody trains it is seen; that somebody should is the reading of the source
        f"no optimizer holds {whose}, though `{owner}` is in training mode",
        f"{whose} keeps the values that it began with. The function that puts `{owner}` into training mode does "
        f"the same for `{beside}`, which `{name}` updates. What is not to learn needs no such call.",
        (
            *ungiven.ungiven_places(program, sign, whose),
            span("related", mode, f"`{owner}` is put into training mode beside `{beside}`"),
        ),
        remedies=tuple(_remedies(program, sign, [f"{owner}.parameters()"])),
        because=ungiven.unused_gradients(sign, whose),
    )


def _comes_trained(sources: SourceTexts) -> bool:
    """Whether a call gives a network that others have trained, whose loading is not seen."""
    return any(
        last_word(node.func) == "from_pretrained" or any(k.arg in ("pretrained", "weights") for k in node.keywords)
        for _, node in bindings.everywhere(sources, ast.Call)
    )


def _switched_beside(
    sources: SourceTexts, parameters: list[Parameter], loose: list[str]
) -> tuple[Frame, ast.expr, str] | None:
    """The call of ``train()`` of a module that all of these lie in and of which no optimizer holds anything, the
    module, and another one that is trained and that the same function puts into training mode."""
    calls: dict[ast.AST, list[tuple[str, ast.Call, ast.expr]]] = {}
    for file, node in everywhere(sources, ast.Call):
        if is_method_call(node, "train") and not node.args and not node.keywords:
            scope = bindings.scope_around(bindings.tree(sources, file), node.lineno)
            calls.setdefault(scope, []).append((file, node, node.func.value))

    every, owned = [p.name for p in parameters], {p.name for p in parameters if p.owners}

    def held(whole: ast.expr) -> bool:
        return bool(within(bindings.text_of(whole), every).keys() & owned)

    for switched in calls.values():
        beside = next((path_of(whole) for _, _, whole in switched if held(whole)), "")
        for file, node, whole in switched if beside else ():
            if {*loose} <= within(bindings.text_of(whole), every).keys() and not held(whole):
                return bindings.frame_of(sources, file, node), whole, beside
    return None


def _unheld(program: Program, sign: Sign) -> Finding | None:
    own = [str(w) for w in sign.facts.get("weights", ())]
    of_module = not own or any("." in w for w in own)  # a loop over its parameters has another name for each
    if gradients_are_read(program.sources) if of_module else any(gradient_is_read(program.sources, w) for w in own):
        return None  # who looks at them may have them for that; who updates by hand need not do so at each step
    if sign.kind == "unheld-fresh" and (
        _comes_trained(program.sources)
        or is_left_by_choice(program.sources, program.optimizers, sign.parameters)
        or are_updated_by_hand(program.sources, sign.parameters, bool(sign.facts.get("bounded")))
        or (sign.facts["place"] == "drawn" and not are_initialised(program.sources, sign.parameters, program.names))
    ):
        return None  # a random projection is drawn as well, and meant to stay
    remedies = tuple(_remedies(program, sign, _lacking(sign.parameters, program.parameters)))
    if sign.facts.get("place") == "added":  # who means them to stay has a norm that grows all the same
        remedies = tuple(replace(r, open=r.open or "whether they are to learn, is for you to say") for r in remedies)
    if sign.kind != "unheld-weight":
        return _wanted(program, sign, remedies)
    name = optimizer_of(program.optimizers, sign)
    weights = folded(str(w) for w in sign.facts["weights"])
    return Finding(
        *likely(0.9),  # that nobody trains them is seen; that somebody should is not
        f"no optimizer holds {weights}: what weighs the loss keeps its initial value",
        f"{opening(name)} steps other parameters of the same loss. The gradients of {weights} are never used.",
        ungiven.ungiven_places(program, sign, weights),
        remedies=remedies,
        because=ungiven.unused_gradients(sign, folded(sign.parameters)),
    )


def _wanted(program: Program, sign: Sign, remedies: tuple[Remedy, ...]) -> Finding:
    """These gradients, which no optimizer uses, are waited for; or nothing but an optimizer would use them."""
    name = optimizer_of(program.optimizers, sign)
    whose = folded(sign.parameters, beside=(p.name for p in program.parameters if p.owners))
    why, said = _WHY[sign.facts.get("place", sign.kind)]
    return Finding(
        *likely(0.9),  # that nobody trains them is seen; that somebody should is not
        f"no optimizer holds {whose}, {why}",
        f"{opening(name)} was not given them, so no step changes them. If they are to stay as they are, "
        "`requires_grad_(False)` says so.",
        (
            *ungiven.ungiven_places(program, sign, whose),
            *span_of("related", sign.other, f"bounds the gradients of {whose}"),
        ),
        remedies=remedies,
        because=f"{ungiven.unused_gradients(sign, whose)}; {said}",
    )


def _read_past(program: Program, sign: Sign) -> Finding:
    """Measured: no loss depends on these. They lie around what is read by itself, in a forward that never runs."""
    parts = [name.split(".")[:-1] for name in sign.parameters]
    whole = ".".join(p[0] for p in itertools.takewhile(lambda p: len({*p}) == 1, zip(*parts, strict=False)))
    name, whose = optimizer_of(program.optimizers, sign), folded(sign.parameters, beside=program.names)
    what = f"`{whole}`" if whole else "what holds them"
    inner = innermost_user(sign.stack)
    around = (f for f in sign.stack if f.user and inner is not None and f.function != inner.function)
    handed = [f for f in around if f".{whole.rpartition('.')[2]}." in code_at(program.sources, f)]
    return Finding(
        *likely(0.9),  # that no loss depends on them is measured; that one should is not
        f"{whose} {'get' if len(sign.parameters) > 1 else 'gets'} no gradient: the forward of {what} never runs",
        f"{opening(name)} holds them. A weight inside of {what} is read by itself, so what its forward would add to it "
        "is in no loss. Call the module, or make the weight that is read of all of its parts.",
        (
            *span_of("cause", sign.stack, f"reads a weight inside of {what}, past its forward"),
            *(span("cause", f, "hands it over") for f in handed[-1:]),
            *span_of("related", sign.other, "reaches none of them"),
        ),
        because=f"at {sign.count} steps they were moved and no loss moved; no module inside of {what} was called",
    )


def _used_up(program: Program, sign: Sign) -> Finding | None:
    """A group of the optimizer was made from an iterator that something else had gone through before."""
    if sign.facts.get("walked"):
        return ungiven.walked(program, sign)
    name = name_of(program.optimizers, sign)
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    if making is None:
        return ungiven.spent(program, sign)
    value = making.statement.value
    at, call = one_return(program.sources, value) or (making.frame(program.sources), value)
    groups = [
        value
        for node in each(call, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if is_constant(key, "params")
    ]
    if len(groups) == sign.facts.get("groups"):
        groups = [groups[i] for i in sign.facts["empty"]]
    found = [o for value in groups if (o := one_shot(program.sources, program.parameters, [at], value)) is not None]
    if len(found) != 1:
        return ungiven.spent(program, sign)
    return ungiven.nothing_left(
        found[0],
        at,
        f"`{found[0].name}` is an exhausted iterator: `{name}` is given nothing of "
        f"{'that part of ' if found[0].part else ''}`{found[0].module}`",
        "makes a group with no parameter in it",
        f"in {sign.count} steps `{name}` had a group without parameters",
    )


def _lacking(names: list[str], parameters: list[Parameter]) -> list[str]:
    """Expressions that give these parameters and no others: those of a module, or each by itself."""
    paths = [name.split(".") for name in names]
    for n in reversed(range(1, min(map(len, paths), default=0))):  # what is further out may be no module
        whole = ".".join(paths[0][:n])
        if {p.name for p in parameters if not p.buffer and p.name.startswith(f"{whole}.")} == set(names):
            return [f"{whole}.parameters()"]
    return names if len(names) <= MOST_NAMED else []


def _remedies(program: Program, sign: Sign, lacking: list[str]) -> list[Remedy]:
    """Give the optimizer what these expressions give, where its own function knows them."""
    name = name_of(program.optimizers, sign)
    making = made(program.sources, optimizer_with(program.optimizers, sign.optimizer))
    if making is None or not lacking:
        return []
    target = bindings.text_of(making.statement.targets[0])
    whole, _, last = name.rpartition(".")
    if target == f"self.{last}" and all(text.startswith(f"{whole}.") for text in lacking):
        # made in a method of what holds both
        name, lacking = target, [f"self.{text.removeprefix(f'{whole}.')}" for text in lacking]
    if target != name:
        return []
    bases = {".".join(text.split(".")[: 2 if text.startswith("self.") else 1]) for text in lacking}
    bound = {base: binding_behind(making, base) for base in bases}
    if any(
        s is None and not bindings.assignments(program.sources, making.frame(program.sources), b)
        for b, s in bound.items()
    ):
        return []
    behind = [s for s in bound.values() if s is not None]
    anchor: ast.stmt = max(behind, key=lambda s: s.lineno, default=making.statement)
    of_module = lacking[0].endswith("()")
    lacking = list(map(with_items, lacking))
    params = lacking[0] if of_module else f"[{', '.join(lacking)}]"
    whole = lacking[0].removesuffix(".parameters()")
    what = f"the parameters of `{whole}`" if of_module else listing(f"`{text}`" for text in lacking)
    statement = f'{name}.add_param_group({{"params": {params}}})'
    args = {"place": place(bindings.frame_of(program.sources, making.file, anchor)), "statement": statement}
    note = f"`{name}` steps {folded(sign.parameters) if of_module else what}"
    return [
        Remedy(
            "add_statement", f"give `{name}` {what}", "unsafe", note, args, _open(program.sources, program.optimizers)
        )
    ]


def _open(sources: SourceTexts, optimizers: list[Optimizer]) -> str:
    """What only the author can say of parameters that an optimizer is given too."""
    if any(is_constant(key, "params") for _, group in bindings.everywhere(sources, ast.Dict) for key in group.keys):
        return "which learning rate they are to have, is for you to say"
    several = sum(o.steps > 0 for o in optimizers) > 1
    return "which optimizer is to have them, is for you to say" if several else ""
