"""Compute a value again: behind an optimizer step, or the entries of a store where they are read."""

from __future__ import annotations

import ast
from collections.abc import Set

from graphdoc.fixes.between_losses import detach_reads
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, place, required, source_of, statement
from graphdoc.fixes.program_slices import (
    Stretch,
    binds,
    bound,
    changes,
    check_known,
    kept_as_drawn,
    made_of,
    opened,
    reads,
    regrouped,
    seeds_of,
    stretch,
    taken_away,
    translates,
    unbound,
    wanted_behind,
)
from graphdoc.source.edits import Piece, copied, insert_after, write
from graphdoc.source.module import Source, each, has, is_within, values_of, walked
from graphdoc.source.paths import is_read, is_set, key, last_word, parse_expression, plain_names
from graphdoc.source.places import Edit
from graphdoc.source.scopes import is_readable, scope_of, stands_for

_ASKING = frozenset({"len", "print", "type", "isinstance", "id"})


@kind("recompute_entries")
def recompute_entries(sources: Sources, args: Args) -> list[Edit]:
    """Compute the entries of a store again where they are read: ``torch.stack(log_probs)`` →
    ``torch.stack([policy(x).log_prob(a) for x, a in zip(states, actions)])``.

    Args:
        place: the statement that stores an entry.
        reads: places of the statements in which entries are used; what their functions read of the store is changed.
        containers: the last names under which the list that holds the entries is reached; the first is the list's own.
        field: optional; ``["index", "2"]``, ``["attribute", "log_prob"]`` or ``["key", "'log_prob'"]`` where an entry
            has several fields, of which this one is computed again.
        value: the expression that computes one, over the names of its siblings.
        siblings: pairs of a name in ``value`` and of the list, or the field, that holds it.
    """
    source, stored = statement(sources, required(args, "place"))
    edits: list[Edit] = []
    done: list[ast.AST] = []
    for read in required(args, "reads"):
        if source_of(sources, place(read)) is not source:
            raise CannotFix("the store is filled in one file and read in another")
        _, node = statement(sources, read)
        scope = scope_of(source, node)
        if any(scope is d for d in done):
            continue
        done.append(scope)
        one = _Reads(source, scope, stored, args)
        edits += one.of_fields() if args.get("field") else one.of_lists()
    if not edits:
        raise CannotFix("where the store is read its entries are not found by their names")
    return edits


class _Reads:
    """What one function reads of the store, and what it is to read instead."""

    def __init__(self, source: Source, scope: ast.AST, stored: ast.stmt, args: Args) -> None:
        self.source, self.scope, self.stored = source, scope, stored
        self.containers, self.value = [str(c) for c in required(args, "containers")], str(required(args, "value"))
        self.siblings = [(str(name), str(at)) for name, at in required(args, "siblings")]
        self.field = [str(f) for f in args.get("field") or ()]
        parsed = parse_expression(self.value)
        if parsed is None or not self.siblings or not self.containers:
            raise CannotFix("what computes an entry is no expression")
        self.parsed = parsed

    def of_lists(self) -> list[Edit]:
        """Lists side by side, each with one thing of an entry."""
        edits: list[Edit] = []
        kind = ast.Attribute if "." in self.siblings[0][1] else ast.Name
        for n in each(self.scope, ast.Name, ast.Attribute):
            if not isinstance(n, kind) or not is_read(n):
                continue
            if last_word(n) != self.containers[0] or self._is_asked(n):
                continue
            lists = {name: self._beside(n, at) for name, at in self.siblings}
            owner = {"owner": n.value} if isinstance(n, ast.Attribute) else {}
            self._readable(n)
            above = self.source.parents.get(n)
            if isinstance(above, ast.Subscript) and above.value is n and not isinstance(above.slice, ast.Slice):
                entries = {name: f"{at}[{{index}}]" for name, at in lists.items()}
                edits.append(self._write(above, self._with(entries), index=above.slice, **owner))
            else:
                edits.append(self._write(n, self._listed(lists), **owner))
        return edits

    def of_fields(self) -> list[Edit]:
        """One list of entries with several fields: by attribute or key, or taken apart into names."""
        edits: list[Edit] = []
        for n in walked(self.scope):
            if isinstance(n, ast.Attribute | ast.Subscript) and self._is_field(n):
                self._readable(n)
                quote = self.source.segment(n.slice)[:1] if isinstance(n, ast.Subscript) else ""
                fields = {k: _field(_quoted(at, quote), n) for k, at in self.siblings}
                edits.append(self._write(n, self._with(fields), owner=n.value))
            elif self.field[0] == "index" and isinstance(n, ast.For | ast.Assign | ast.comprehension):
                edits += self._taken_apart(n)
        return edits

    def _is_field(self, n: ast.Attribute | ast.Subscript) -> bool:
        if not is_read(n):
            return False
        if isinstance(n, ast.Attribute):
            of_field = self.field[0] in ("attribute", "field") and n.attr == self.field[1]
            return of_field and self.source.node_call_of(n) is None
        return self.field[0] == "key" and key(n.slice) == self.field[1]

    def _taken_apart(self, node: ast.For | ast.Assign | ast.comprehension) -> list[Edit]:
        """``for state, action, log_prob in memory`` and ``states, actions, log_probs = zip(*memory)``."""
        many = isinstance(node, ast.Assign)
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        origin = node.value if isinstance(node, ast.Assign) else node.iter
        if isinstance(origin, ast.Call) and key(origin.func) == "enumerate" and isinstance(target, ast.Tuple):
            target, origin = target.elts[-1], origin.args[0]
        if not isinstance(target, ast.Tuple) or not self._of_store(origin, many):
            return []
        names = [e.id if isinstance(e, ast.Name) else "" for e in target.elts]
        at = int(self.field[1])
        if at >= len(names) or not names[at]:
            raise CannotFix("the entries are taken apart in another way than they are put together")
        given = {}
        for name, where in self.siblings:
            if int(where) >= len(names) or names[int(where)] in ("", "_"):
                raise CannotFix("what an entry is computed from is not taken out of the store")
            given[name] = names[int(where)]
        inside = self.source.parents.get(node) if isinstance(node, ast.comprehension) else node
        area = inside if not many and inside is not None else self.scope
        behind = self.source.span(target)[1]
        found = (n for n in each(area, ast.Name) if n.id == names[at] and is_read(n))
        reads = [n for n in found if self.source.span(n)[0] > behind or isinstance(node, ast.comprehension)]
        if not isinstance(node, ast.comprehension):
            last = min((self.source.span(s)[1] for s in self._bindings(area, names[at], node)), default=None)
            reads = [n for n in reads if last is None or self.source.span(n)[0] < last]
            for name in given.values():
                self._still_entries(area, name, node, reads)
        for n in reads:
            self._readable(n)
        text = self._listed(given) if many else self._with(given)
        return [write(self.source, n, text) for n in reads]

    def _bindings(self, area: ast.AST, name: str, node: ast.AST) -> list[ast.stmt]:
        """The statements behind a node that bind a name anew."""
        behind = self.source.span(node)[1] if isinstance(node, ast.Assign) else self.source.span(node)[0]
        stores = [n for n in each(area, ast.Name) if n.id == name and is_set(n)]
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
        own = {id(n) for n in walked(target)}
        found = []
        for store in stores:
            if id(store) in own or self.source.span(store)[0] < behind:
                continue
            one = self.source.node_statement(self.source.place(store))
            around = self.source.node_block(node)[0] if isinstance(node, ast.stmt) else []
            body = node.body if isinstance(node, ast.For) else around
            if one is None or one not in body:
                raise CannotFix(f"{name} is assigned again in a part that need not run")
            found.append(one)
        return found

    def _still_entries(self, area: ast.AST, name: str, node: ast.AST, reads: list[ast.Name]) -> None:
        """Refuse where a sibling's name holds something else by then; ``torch.stack(states)`` still holds them."""
        last = max((self.source.span(n)[0] for n in reads), default=0)
        for one in self._bindings(area, name, node):
            value = one.value if isinstance(one, ast.Assign) else None
            stacked = isinstance(value, ast.Call) and stands_for(self.source, value.func) == "torch.stack"
            same = stacked and value is not None and key(value).partition("(")[2] == f"{name})"
            if self.source.span(one)[0] < last and not same:
                raise CannotFix(f"{name} is assigned again before the entries are read")

    def _of_store(self, origin: ast.expr, many: bool) -> bool:
        """Whether an expression gives the entries of the store: its name is in it, or in what was bound to its name."""
        if many != any(key(n.func) == "zip" for n in each(origin, ast.Call)):
            return False
        known = {*self.containers}
        names = {last_word(n) for n in walked(origin)} - {""}
        if names & known:
            return True
        bound = [value for name in names for value in values_of(self.scope, name)]
        return any(last_word(n) in known for b in bound for n in walked(b))

    def _is_asked(self, n: ast.expr) -> bool:
        """Whether only something about the list is wanted, or it is changed: its length, ``append``, ``clear``."""
        above = self.source.parents.get(n)
        if isinstance(above, ast.Attribute):
            return True
        return isinstance(above, ast.Call) and n in above.args and key(above.func) in _ASKING

    def _beside(self, n: ast.Name | ast.Attribute, at: str) -> str:
        """How the list of a sibling is written where this one is read, behind the same ``{owner}``."""
        name = at.rpartition(".")[2]
        if isinstance(n, ast.Attribute):
            return f"{{owner}}.{name}"
        if not is_readable(self.source, name, n):
            raise CannotFix(f"{name} cannot be read where {self.containers[0]} is")
        return name

    def _readable(self, at: ast.AST) -> None:
        """Refuse where the expression would mean something else."""
        names = plain_names(self.parsed) - {name for name, _ in self.siblings}
        check_known(self.source, names, self.source.node_function(self.stored), self.source.node_function(at))

    def _write(self, node: ast.expr, template: str, **parts: Piece) -> Edit:
        """A template in the place of an expression, with those parts that it has room for."""
        return write(self.source, node, template, **{k: p for k, p in parts.items() if f"{{{k}}}" in template})

    def _with(self, given: dict[str, str]) -> str:
        """The expression with its siblings' names as they are written here."""
        if all(name == text for name, text in given.items()):
            return self.value
        text = self.value
        nodes = [n for n in each(ast.parse(text, mode="eval"), ast.Name) if n.id in given]
        for n in sorted(nodes, key=lambda n: -n.col_offset):
            text = text[: n.col_offset] + given[n.id] + text[n.end_col_offset :]
        return text

    def _listed(self, lists: dict[str, str]) -> str:
        origin = ", ".join(lists.values())
        return f"[{self.value} for {', '.join(lists)} in {origin if len(lists) == 1 else f'zip({origin})'}]"


def _field(at: str, like: ast.AST) -> str:
    return f"{{owner}}.{at}" if isinstance(like, ast.Attribute) else f"{{owner}}[{at}]"


def _quoted(text: str, quote: str) -> str:
    """A key in the quotes that its neighbour has."""
    plain = quote == '"' and text[:1] == "'" and '"' not in text and "\\" not in text
    return f'"{text[1:-1]}"' if plain else text


@kind("recompute_after", runs_again=True)
def recompute_after(sources: Sources, args: Args) -> list[Edit]:
    """Compute a value again behind an optimizer step, so that the loss uses the weights of now.

    The statements that compute it are moved behind the step, with what they go through on the way to the loss; one
    whose result is also used before the step is copied and stays where it is, and so does all of it where step and
    backward stand in a branch. What stands in a block that only sets a mode (``with autocast():``) runs in such a block
    again. Of a tuple that is copied only what the loss takes is bound again.

    Args:
        places: the statements that ran with the old weights.
        after: the step (or another write into the weights).
        backward: optional; the backward call that needs the value. Only what it needs is computed again.
        constants: optional; those of ``places`` whose value is no more than data for the loss. They do not run again:
            what is computed again takes what they gave, detached.
    """
    source, after = statement(sources, required(args, "after"))
    seeds = seeds_of(sources, args, source, after)
    constants = [n for n, at in zip(seeds, args["places"], strict=True) if at in (args.get("constants") or ())]
    backward = statement(sources, args["backward"])[1] if args.get("backward") is not None else None
    found, within = opened(source, stretch(source, seeds, after, backward), seeds)
    chosen = [n for n in _chosen(found, backward) if n not in constants]
    copies = [n for n in chosen if not _movable(found, chosen, n)]
    if kept := kept_as_drawn(sources, source, found, copies, backward):
        chosen = [n for n in _chosen(found, backward, kept) if n not in constants]
    if not chosen:
        raise CannotFix("nothing that the forward has bound is read between the step and the backward call")
    anchor = found.block[found.anchor]
    _check(found, chosen, _taken(after, anchor))
    spared = _spared(source, found, chosen, backward)
    again = {n: unbound(source, n, spared.get(n, set())) for n in chosen}
    if constants:
        _detach(source, again, {n for c in constants for n in binds(c)})
    texts = [(node, copied(source, node, edits)) for node, edits in again.items()]
    moved = [n for n in chosen if _movable(found, chosen, n)]
    return insert_after(source, anchor, regrouped(source, texts, within)) + taken_away(source, moved, within)


def _chosen(found: Stretch, backward: ast.stmt | None, kept: Set[ast.stmt] = frozenset()) -> list[ast.stmt]:
    """The statements to run again: those through which the value reaches what is read behind the anchor.

    ``kept`` are statements whose value stays as it is.
    """
    tainted: set[str] = set()
    passed: list[ast.stmt] = []
    within: set[str] = set()
    seeds = [found.block[i] for i in found.seeds]
    for node in found.block[found.seeds[0] : found.anchor]:
        touched = node not in kept and (node in seeds or bool(reads(node) & tainted))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            if touched:
                passed.append(node)
                tainted |= binds(node)
            else:
                tainted -= binds(node)
        elif touched and isinstance(node, ast.AugAssign):
            passed.append(node)
            tainted.add(key(node.target))
        elif node in seeds:
            raise CannotFix("the forward is in a loop, a branch or a call of its own")
        elif touched:
            within |= changes(node)
    live = wanted_behind(found.following, backward, tainted | within)
    chosen = made_of(passed, live, tainted)
    if not chosen and (behind := live & within - tainted):
        raise CannotFix(f"{min(behind)} is computed from it in a branch or a loop")
    return chosen


def _taken(step: ast.stmt, anchor: ast.stmt) -> set[str]:
    """What the step itself reads: in its own statement, and what the loops around it go over."""
    loops = (n for n in each(anchor, ast.For, ast.AsyncFor))
    around = [n.iter for n in loops if is_within(step, n)]
    return set().union(*(reads(n) for n in (step, *around)))


def _check(found: Stretch, chosen: list[ast.stmt], taken: set[str]) -> None:
    """Running the statements later must mean the same, but for the weights; the step was made with what is taken."""
    fresh: set[str] = set()
    for node in chosen:
        if used := binds(node) & taken:
            raise CannotFix(f"the step is made with {min(used)}, which would then be that of a second one")
        if isinstance(node, ast.AugAssign) and key(node.target) not in fresh:
            raise CannotFix(f"{key(node.target)} would be added to twice")
        if has(node, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom):
            raise CannotFix("the forward does more than compute a value")
        inputs = reads(node) - fresh
        later = {n for s in found.behind(node) if s not in chosen for n in changes(s)}
        if later & inputs:
            raise CannotFix("what the forward is computed from may have changed by then")
        # The new value must not take the place of another one that is still wanted under its name.
        if other := wanted_behind(found.following, None, later & binds(node)):
            raise CannotFix(f"{min(other)} has another value by then")
        fresh |= binds(node)


def _spared(
    source: Source, found: Stretch, chosen: list[ast.stmt], backward: ast.stmt | None
) -> dict[ast.stmt, set[str]]:
    """For each statement that is copied, the names that keep their value: nothing that runs again needs a new one."""
    if not source.parses or translates(source.tree):
        return {}
    live = wanted_behind(found.following, backward, {n for s in chosen for n in changes(s)})
    spared: dict[ast.stmt, set[str]] = {}
    for node in reversed(chosen):
        if not _movable(found, chosen, node):
            spared[node] = binds(node) - live
        live |= reads(node)
    return spared


def _detach(source: Source, again: dict[ast.stmt, list[Edit]], constants: set[str]) -> None:
    """Have what the statements that run again read of the constants detached."""
    reading = {node: detach_reads(source, node, constants) for node in again}
    if not any(reading.values()):
        raise CannotFix("what is computed again does not read the constant by its name")
    for node, edits in reading.items():
        again[node] += edits


def _movable(found: Stretch, chosen: list[ast.stmt], node: ast.stmt) -> bool:
    """Whether nothing that stays in place reads what the statement binds."""
    if found.branched:
        return False
    behind = found.behind(node)
    staying = [s for s in (*behind, found.block[found.anchor]) if s not in chosen]
    copied = [s for s in behind if s in chosen and not _movable(found, chosen, s)]
    return not any(reads(s) & bound(node) for s in (*staying, *copied))
