"""Compute something in each round of a loop again, or once: in front of it, or in ``__init__``."""

from __future__ import annotations

import ast
import re
from itertools import chain, count

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, required, statement
from graphdoc.fixes.program_slices import (
    binds,
    bound,
    changes,
    check_known,
    drawn_once,
    made_of,
    made_of_old,
    reads,
    translates,
    unbound,
    wanted_behind,
)
from graphdoc.source.edits import (
    add_argument,
    add_members,
    copied,
    delete,
    insert_after,
    insert_before,
    instead,
    write,
    written,
)
from graphdoc.source.effects import another_each_time, is_bare_call
from graphdoc.source.layout import first_statement
from graphdoc.source.module import Function, Loop, Source, each, walked
from graphdoc.source.paths import (
    is_attribute,
    is_name,
    is_path,
    is_read,
    key,
    last_word,
    names_read,
    plain_names,
    sole_target,
    targets_of,
)
from graphdoc.source.places import Edit, Text
from graphdoc.source.scopes import bound_names, fresh_name, given_by, parameters, scope_of


@kind("move_into_loop")
def move_into_loop(sources: Sources, args: Args) -> list[Edit]:
    """Compute something again in each iteration: move its statements to the head of a loop's or function's body.

    A statement whose result is also read before the loop is copied instead of moved.

    Args:
        places: the statements, in the order in which they are to run (or ``place`` for one).
        loop: the loop, or anything in its body.
        into: instead of ``loop``: a function (or anything in it) of the same class, such as ``forward``, for a
            statement of ``__init__`` that uses nothing but ``self`` and globals; or a function written inside the
            statement's own.
        graphs: optional, for a loop; names of tensors with a graph. What computes them from the moved ones, for the
            loop to read, goes along: left where it is, it would be made of the old values.
        whole: with ``graphs``: what computes those of them that the moved ones read goes along as well.

        anew: True where what the loop has carried on so far is to begin anew in each round.

    Random numbers and batches are taken once, as before, where they stand in the statement as they are
    (``torch.randn(4)``, ``pool.pop()``); what else draws is not moved, for each iteration would get another one. A name
    that the loop carries on keeps its value, where the statement binds others beside it.
    """
    places = args.get("places") or [required(args, "place")]
    found = [statement(sources, p) for p in places]
    source = found[0][0]
    chosen = [node for _, node in found]
    into = args.get("into")
    target, owner = _around(sources, into if into is not None else required(args, "loop"), into is not None)
    if any(s is not target for s, _ in found):
        raise CannotFix("the statements stand in another file")
    if isinstance(owner, Loop):
        graphs = frozenset(args.get("graphs") or ())
        chosen = [*(_made_from(source, chosen, graphs) if args.get("whole") else ()), *chosen]
        chosen += derived(source, chosen, owner, graphs)
        between = _between(source, min(chosen, key=lambda n: n.lineno), owner)
        if name := made_of_old(chosen, between, owner, graphs):
            raise CannotFix(f"each round would get another {name}, and the loop reads what was made of the first")
    for node in chosen:
        _check(sources, source, node, owner, chosen)
    carried = dict[ast.stmt, set[str]]()
    if isinstance(owner, Loop):
        _check_way(source, chosen, owner)
        carried = {} if args.get("anew") else _carried(source, chosen, owner)
    gone: list[ast.stmt] = []
    for node in reversed(chosen):
        # Backwards: what a statement that stays reads is to stay as well.
        if node not in carried and not _read_elsewhere(source, node, owner, [node, *gone]):
            gone.append(node)
    once = _drawn(source, chosen, owner, gone)
    name = fresh_name(source, "drawn", "drawn_once")
    inside = {n: unbound(source, n, carried.get(n, set())) for n in chosen}
    for node, taking in once.items():
        inside[node].append(write(source, taking, name))
    edits = insert_before(source, first_statement(owner), [copied(source, n, e) for n, e in inside.items()])
    for node in reversed(gone):
        taken = [written(source, f"{name} = {{taken}}", taken=once[node])] if node in once else []
        edits += instead(source, node, taken)
    return edits


def _drawn(source: Source, chosen: list[ast.stmt], owner: ast.stmt, gone: list[ast.stmt]) -> dict[ast.stmt, ast.Call]:
    """The statement that takes something for itself, and the call by which it does so: once, where it stands."""
    once: dict[ast.stmt, ast.Call] = {}
    for node in chosen:
        if not (taking := another_each_time(node)):
            continue
        found = drawn_once(source, node) if isinstance(owner, Loop) and node in gone and not once else None
        if found is None:
            raise CannotFix(f"each iteration would get another one from {taking}()")
        once[node] = found
    return once


def _check(sources: Sources, source: Source, node: ast.stmt, owner: ast.stmt, chosen: list[ast.stmt]) -> None:
    """Running a statement there must mean what it means, but for the weights."""
    if is_bare_call(node):
        # It is there for what it does, not for a value: run again, or earlier, it does that at another time.
        raise CannotFix("the statement computes no value that could be had again")
    if owner in source.node_ancestors(node):
        raise CannotFix("the statement already runs there")
    _check_value(sources, node)
    _check_start(node, chosen)
    if isinstance(owner, Function):
        _check_names(source, node, owner)
    elif source.node_function(node) is not source.node_function(owner):
        raise CannotFix("the statement and the loop stand in different functions")
    elif taken := _header_reads(owner) & {key(t) for t in targets_of(node)}:
        raise CannotFix(f"the loop runs over {min(taken)}")


def _made_from(source: Source, chosen: list[ast.stmt], graphs: frozenset[str]) -> list[ast.stmt]:
    """The statements above, of the same block, that give what the chosen ones read its graph."""
    block, index = source.node_block(min(chosen, key=lambda n: n.lineno))
    live = {n for s in chosen for n in reads(s)} & graphs
    out: list[ast.stmt] = []
    for node in reversed(block[:index]):
        if changes(node) & live:
            if not binds(node) & live:
                break  # what changes it is no plain assignment
            out.insert(0, node)
            live = (live - binds(node)) | (reads(node) & graphs)
    return out


def _carried(source: Source, chosen: list[ast.stmt], loop: ast.stmt) -> dict[ast.stmt, set[str]]:
    """The names that each of the chosen binds and the loop binds anew: it carries them from round to round."""
    anew = set().union(*(changes(s) for s in getattr(loop, "body", ()))) - {n for s in chosen for n in reads(s)}
    out: dict[ast.stmt, set[str]] = {}
    for node in chosen:
        if taken := binds(node) & anew:
            apart = unbound(source, node, taken) and not translates(source.tree)
            if binds(node) <= taken or not apart:
                raise CannotFix(f"the loop carries {min(taken)} on")
            out[node] = taken
    return out


def derived(source: Source, chosen: list[ast.stmt], owner: ast.stmt, graphs: frozenset[str]) -> list[ast.stmt]:
    """The statements between these and a loop that make of them what has a graph, as far as the loop reads it."""
    fresh = {name for n in chosen for name in binds(n)}
    passed: list[ast.stmt] = []
    for node in _between(source, max(chosen, key=lambda n: n.lineno), owner) if graphs else ():
        added = isinstance(node, ast.AugAssign)
        given = bound(node)
        if given and given <= graphs and reads(node) & fresh and not (added and given - fresh):
            passed.append(node)
            fresh |= given
        elif not added:
            fresh -= given
    wanted = wanted_behind(getattr(owner, "body", []), None, fresh)
    return made_of([s for s in passed if s not in chosen], wanted)


def _between(source: Source, last: ast.stmt, owner: ast.stmt) -> list[ast.stmt]:
    """What runs behind a statement and ends before a loop, in its block and in those around it."""
    out: list[ast.stmt] = []
    at: ast.AST = last
    while isinstance(at, ast.stmt) and not isinstance(at, Function):
        block, index = source.node_block(at)
        out += [s for s in block[index + 1 :] if source.span(s)[1] <= source.span(owner)[0]]
        at = source.parents.get(at, source.tree)
    return out


def _check_value(sources: Sources, node: ast.stmt) -> None:
    """Computing again is no building again: a new module has new weights, and a new optimizer forgets its state."""
    classes = {n.name for s in sources.values() for n in each(s.tree, ast.ClassDef)}
    called = {id(n.func) for n in each(node, ast.Call)}
    for n in each(node, ast.Call):
        if id(n) in called or not is_path(n.func):
            continue  # a loss module that is built and called in one go keeps nothing
        parts = key(n.func).split(".")
        library = parts[-1].lstrip("_")[:1].isupper() and bool({"nn", "optim"} & set(parts[:-1]))
        if parts[-1] in classes or library:
            raise CannotFix(f"the statement builds a {parts[-1]}")


def _check_start(node: ast.stmt, chosen: list[ast.stmt]) -> None:
    """``x = f(x)`` starts from its own last result in each round, unless what it starts from is computed there too."""
    value = getattr(node, "value", None)
    own = {key(t) for t in targets_of(node)} & (reads(value) if value is not None else set())
    above = {key(t) for n in chosen[: chosen.index(node)] for t in targets_of(n)}
    if own - above:
        raise CannotFix(f"it starts from {min(own - above)} itself, and would do so from its own result")


def _check_way(source: Source, chosen: list[ast.stmt], loop: ast.stmt) -> None:
    """Between the statements and the loop nothing changes what they compute, or what they compute it from; and what
    fills entries in a loop of its own has filled another one in each of its rounds."""
    for node in chosen:
        around = [a for a in source.node_ancestors(node) if isinstance(a, Loop | Function)]
        own = bool(around) and isinstance(around[0], Loop) and around[0] not in source.node_ancestors(loop)
        if own and any(isinstance(t, ast.Subscript) for t in targets_of(node)):
            raise CannotFix("it fills entries in a loop of its own")
    for node in source.node_statements():
        if node in chosen or source.span(node)[1] > source.span(loop)[0]:
            continue
        if source.node_function(node) is not source.node_function(loop):
            continue
        above = [s for s in chosen if source.span(s)[0] < source.span(node)[0]]
        if taken := changes(node) & {n for s in above for n in binds(s) | reads(s)}:
            raise CannotFix(f"{min(taken)} is changed on the way to the loop")


def _header_reads(owner: ast.stmt) -> set[str]:
    """What the loop's own line reads, and with it the objects on the way: ``a.b`` for ``a.b.items()``."""
    header = owner.iter if isinstance(owner, ast.For | ast.AsyncFor) else getattr(owner, "test", None)
    if header is None:
        return set()
    return {key(n) for n in each(header, ast.Name, ast.Attribute, ast.Subscript)}


def _around(sources: Sources, at: object, function: bool) -> tuple[Source, ast.stmt]:
    """The function or the loop at a place, or around it."""
    source, node = statement(sources, at)
    found = source.node_function(node) if function else source.node_loop(node)
    found = node if isinstance(node, Function if function else Loop) else found
    if found is None:
        raise CannotFix(f"no {'function' if function else 'loop'} stands around that place")
    return source, found


def _check_names(source: Source, node: ast.stmt, owner: Function) -> None:
    """A statement of another function means the same in this one."""
    given = {key(t) for t in targets_of(node)}
    if taken := given & set(parameters(owner)):
        raise CannotFix(f"{owner.name} is given its own {min(taken)}")
    names = plain_names(node) - plain_names(node, ast.Store)
    check_known(source, names, source.node_function(node), owner, given)


def _read_elsewhere(source: Source, node: ast.stmt, owner: ast.stmt, gone: list[ast.stmt]) -> bool:
    """Whether what the statement assigns is read where the moved statement no longer serves."""
    bound = {key(t) for t in targets_of(node)}
    skipped = {id(n) for s in (owner, *gone) for n in walked(s)}
    scope: ast.AST = scope_of(source, owner)
    origin = source.node_function(node)
    if origin is not None and origin in source.node_ancestors(owner):
        scope = origin
    elif isinstance(owner, Function):
        scope = next((a for a in source.node_ancestors(owner) if isinstance(a, ast.ClassDef)), source.tree)
    begin, end = source.span(node)[1], source.span(owner)[0]
    for other in each(scope, ast.Name, ast.Attribute):
        if not is_read(other) or id(other) in skipped or key(other) not in bound:
            continue
        if isinstance(owner, Function) or begin <= source.span(other)[0] < end:
            return True
    return False


@kind("make_once")
def make_once(sources: Sources, args: Args) -> list[Edit]:
    """Make an object once instead of in each round: its statement goes in front of the loop, also of a caller's loop.

    Out of a function it is handed in: ``def train(model): scaler = GradScaler()`` → ``def train(model, scaler):``.

    Args:
        place: the statement that makes it, ``scaler = GradScaler(…)``.
    """
    source, node = statement(sources, required(args, "place"))
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or len(node.targets) != 1:
        raise CannotFix("what is made there is not simply given a name")
    function = source.node_function(node)
    loop = _outermost(source, node)
    if loop is not None:
        _check_unbound(loop, names_read(node.value))
        return [*delete(source, node), *insert_before(source, loop, [copied(source, node)])]
    if not isinstance(function, Function):
        raise CannotFix("it is made once already")
    if isinstance(node.targets[0], ast.Attribute):
        return _in_init(source, node, function)
    if not isinstance(node.targets[0], ast.Name) or node not in function.body:
        raise CannotFix("whether it is made depends on a condition")
    return _handed_in(source, node, node.targets[0].id, node.value, function)


def _in_init(source: Source, node: ast.Assign, function: Function) -> list[Edit]:
    """``self.scaler = …`` of a method is a statement of ``__init__``, where it needs nothing of the method's own."""
    owner = source.parents.get(function)
    inits = [s for s in getattr(owner, "body", []) if isinstance(s, Function) and s.name == "__init__"]
    if not isinstance(owner, ast.ClassDef) or len(inits) != 1 or function is inits[0]:
        raise CannotFix("no __init__ of its class can make it")
    check_known(source, plain_names(node.value, ast.Load), function, inits[0])
    return [*delete(source, node), *insert_after(source, inits[0].body[-1], [copied(source, node)])]


@kind("make_in_init")
def make_in_init(sources: Sources, args: Args) -> list[Edit]:
    """Make each layer once: ``nn.Linear(4, 2)(x)`` in a method becomes ``self.linear(x)``, which ``__init__`` makes at
    its end.

    Args:
        places: the calls that make them, ``nn.Linear(4, 2)``, of nothing that the method binds.
    """
    edits: list[Edit] = []
    kept: dict[ast.stmt, tuple[Source, set[str], list[Text]]] = {}
    for at in required(args, "places"):
        source, node = call(sources, at)
        function, owner = source.node_function(node), source.node_owner(node)
        around = source.parents.get(function) if function is not None else None
        own = (s for s in getattr(around, "body", []) if isinstance(s, Function))
        begins = next((s for s in own if s.name == "__init__"), None)
        if around is None or begins is None or function is begins:
            raise CannotFix("no __init__ of its class can make it")
        check_known(source, plain_names(node, ast.Load), function, begins)
        read = {".".join(n.split(".")[:2]) for n in names_read(node) if n.startswith("self.")}
        if missing := read - {key(t) for s in walked(begins) for t in targets_of(s)}:
            raise CannotFix(f"__init__ does not set {min(missing)}")
        _, taken, texts = kept.setdefault(begins.body[-1], (source, {n.attr for n in each(around, ast.Attribute)}, []))
        target = sole_target(owner)
        if isinstance(owner, ast.Assign) and owner.value is node and isinstance(target, ast.Attribute):
            edits += delete(source, owner)
            texts.append(copied(source, owner))
            continue
        word = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", last_word(node.func)).lower()
        wanted = target.id if isinstance(target, ast.Name) and getattr(owner, "value", None) is node else word
        name = next(n for n in chain([wanted], (f"{wanted}{i}" for i in count(2))) if n not in taken)
        taken.add(name)
        edits.append(write(source, node, f"self.{name}"))
        texts.append(written(source, f"self.{name} = {{made}}", made=node))
    return [*edits, *(e for last, (source, _, texts) in kept.items() for e in insert_after(source, last, texts))]


def _handed_in(source: Source, node: ast.Assign, name: str, value: ast.Call, function: Function) -> list[Edit]:
    """The one caller makes it in front of its loop and hands it in."""
    call = _only_call(source, function)
    at = _outermost(source, call)
    caller = source.node_function(call)
    if at is None:
        raise CannotFix("the function that makes it is called in no loop")
    arguments = function.args
    if arguments.vararg or arguments.kwarg or name in bound_names(caller or source.tree):
        raise CannotFix("it cannot be handed in")
    given = _given(function, call)
    inside = []
    for read in walked(value):
        if isinstance(read, ast.Name) and read.id in given:
            inside.append(write(source, read, "{given}", given=given[read.id]))
        elif isinstance(read, ast.Name) and read.id in bound_names(function):
            raise CannotFix(f"{read.id} is not known where the function is called")
    used = set().union(*(names_read(e) for n, e in given.items() if n in names_read(value)))
    _check_unbound(at, used)
    default = "=None" if arguments.defaults and not arguments.kwonlyargs else ""
    return [
        *delete(source, node),
        *add_members(source, function, [f"{name}{default}"]),
        *add_argument(source, call, f"{name}={name}"),
        *insert_before(source, at, [copied(source, node, inside)]),
    ]


def _only_call(source: Source, function: Function) -> ast.Call:
    named = [n for n in walked(source.tree) if is_name(n, function.name) or is_attribute(n, function.name)]
    call = source.parents.get(named[0]) if len(named) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not named[0]:
        raise CannotFix("the function that makes it is not called at one place alone")
    return call


def _given(function: Function, call: ast.Call) -> dict[str, ast.expr]:
    """The caller's expressions for the function's parameters."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        raise CannotFix("what the function is given is not written out")
    return given_by(function, call)


def _outermost(source: Source, node: ast.AST) -> ast.stmt | None:
    """The outermost loop around a node, in its function."""
    found: ast.stmt | None = None
    for around in source.node_ancestors(node):
        if isinstance(around, Function | ast.Lambda | ast.ClassDef):
            break
        if isinstance(around, Loop):
            found = around
    return found


def _check_unbound(loop: ast.stmt, read: set[str]) -> None:
    """Nothing that it is made of is bound in the loop."""
    bound = plain_names(loop, ast.Store)
    if taken := bound & {r.split(".")[0] for r in read}:
        raise CannotFix(f"{min(taken)}, which it is made of, is another one in each round")
