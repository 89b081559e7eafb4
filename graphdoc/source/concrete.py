"""Making edits on libcst's tree: the nodes that they name are found, changed together, and written out again.

The tree is that of one top-level statement's text, so what an edit costs does not grow with the file, and what it does
not name stays to the letter. What libcst would write otherwise than it reads (it drops form feeds, and turns blanks
before a tab into others) is put back from the text, line by line.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any

import libcst as cst
from libcst._nodes.internal import CodegenState
from libcst.helpers import parse_template_expression, parse_template_module

from graphdoc.source import places
from graphdoc.source.layout import Unplaceable, begins_line, comment_above, indent_unit, paragraph
from graphdoc.source.module import Lines, Source
from graphdoc.source.paths import parse_expression

# Python ends a line at these three and at nothing else (str.splitlines also splits at form feeds and U+2028).
_LINE_END = re.compile(r"\r\n|\n|\r")
# A form feed in an indentation starts the count of its columns anew; libcst does not read all of them.
_FEED = re.compile(r"(?:(?<=[\r\n])|\A)[ \t\f]*\f")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# Not a rule over a section (`# ----`), a cell's mark (`# %%`) or the first line of a script (`#!`).
_IN_WORDS = re.compile(r"[ \t\f]*#+[ \t]*\w")
_Node = Any  # libcst's own classes differ in what they hold; a tree is checked by libcst when it is made
_Span = tuple[int, int]
_DEPTH = 20_000
_PLAIN = cst.LeftParen | cst.RightParen | cst.Slice
_WHOLE = cst.BaseExpression | cst.BaseSmallStatement | cst.BaseCompoundStatement
_LOOSE = cst.IfExp | cst.Lambda | cst.NamedExpr | cst.Tuple | cst.Yield
"""What stands in parentheses in every other expression."""


class OverlappingEdits(ValueError):
    """Two edits want to change the same node."""


class Unreadable(ValueError):
    """libcst cannot read the statement, or not so that it can be written again."""


# -- the tree of one statement ---------------------------------------------------------------------------------------


class _Seen(CodegenState):
    """Where each node is written and what it is a part of, noted while libcst writes the tree.

    libcst's own ``PositionProvider`` is such a state; with ``ParentNodeProvider`` it takes five times as long.
    """

    def __init__(self, module: cst.Module) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.spans: dict[_Node, _Span] = {}
        """Offsets of expressions and statements, without grouping parentheses, of such parentheses, and of slices."""
        self.parents: dict[_Node, _Node] = {}
        self._around: list[_Node] = []
        self._length = 0

    def add_token(self, value: str) -> None:
        super().add_token(value)
        self._length += len(value)

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self._length += sum(map(len, self.indent_tokens))

    def before_codegen(self, node: _Node) -> None:
        if self._around:
            self.parents[node] = self._around[-1]
        self._around.append(node)
        if isinstance(node, _PLAIN):
            self.spans[node] = self._length, self._length

    def after_codegen(self, node: _Node) -> None:
        self._around.pop()
        if isinstance(node, _PLAIN):
            self.spans[node] = self.spans[node][0], self._length

    @contextmanager
    def record_syntactic_position(self, node: _Node, **_: _Node) -> Iterator[None]:
        start = self._length
        yield
        self.spans[node] = start, self._length


class _Tree:
    """libcst's tree of a text, and the nodes in it by the offsets that Python's own parser gives them."""

    def __init__(self, text: str, begin: int, newline: str) -> None:
        self.text, self.begin = text, begin
        # A last line without an end does not say which one the file uses.
        known: Any = {} if _LINE_END.search(text) else {"default_newline": newline}
        try:
            self.module = cst.parse_module(_without_feeds(text), cst.PartialParserConfig(**known))
        except cst.ParserSyntaxError as e:
            raise Unreadable(f"libcst cannot read line {e.raw_line} of the statement") from e
        # libcst takes a comment above the first statement for one about the file.
        first, *others = self.module.body
        first = first.with_changes(leading_lines=[*self.module.header, *first.leading_lines])
        self.module = self.module.with_changes(header=[], body=[first, *others])
        seen = _Seen(self.module)
        self.module._codegen(seen)
        self.written = "".join(seen.tokens)
        self._lines, self._seen = Lines(text), Lines(self.written)
        if len(self._lines) != len(self._seen):
            raise Unreadable("libcst would not write the statement as it reads it")
        self.parents, self._spans = seen.parents, seen.spans

    @cached_property
    def _expressions(self) -> dict[_Span, _Node]:
        """Expressions by their span, without the parentheses that only group them."""
        found: dict[_Span, _Node] = {}
        for node, (start, end) in self._spans.items():
            if not isinstance(node, cst.BaseExpression | cst.Slice):
                continue
            found[start, end] = node
            if isinstance(node, cst.Tuple | cst.GeneratorExp):  # Python's parser counts their parentheses in
                if node.lpar:
                    found[self._spans[node.lpar[-1]][0], self._spans[node.rpar[0]][1]] = node
                else:
                    found[start - 1, end + 1] = node
        return found

    @cached_property
    def _statements(self) -> dict[int, _Node]:
        return {
            start: node
            for node, (start, _) in self._spans.items()
            if isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement)
        }

    def holds(self, spot: places.Spot) -> bool:
        return self.begin <= spot.start < self.begin + len(self.text)

    def node(self, spot: places.Spot) -> _Node:
        """The node at these offsets of the file."""
        start, end = self._offset(spot.start - self.begin), self._offset(spot.end - self.begin)
        found = self._statements.get(start) if spot.statement else self._expressions.get((start, end))
        if found is None:
            raise Unreadable("libcst does not see what is to change there")
        return found

    def around(self, node: _Node) -> _Node:
        """The expression or the statement that a node is a part of."""
        node = self.parents[node]
        while not isinstance(node, _WHOLE):
            node = self.parents[node]
        return node

    def fits(self, code: str, node: _Node, around: _Node) -> bool:
        """Whether an expression means the same in the place of a node without parentheses."""
        start, end = self._spans[around]
        first = self._spans[node.lpar[0] if node.lpar else node][0]
        last = self._spans[node.rpar[-1] if node.rpar else node][1]
        before, behind = self.written[start:first], self.written[last:end]
        form = "{}" if isinstance(around, cst.BaseSmallStatement) else "({}\n)"
        bare, safe = (_dumped(form.format(f"{before}{c}{behind}")) for c in (code, f"({code}\n)"))
        return bare == safe

    def _offset(self, offset: int) -> int:
        """Where in the text as libcst writes it an offset of the text lies."""
        line = self._lines.line_of(offset)
        # What libcst writes otherwise stands in the indentation: the rest of the line is counted from its end.
        return self._seen.end(line) - min(self._lines.end(line) - offset, len(self._seen.content(line)))

    def text_with(self, module: cst.Module) -> str:
        """The text as it reads with this module in the place of its own."""
        if self.written == self.text:
            return module.code
        old, new, kept = (_LINE.findall(t) for t in (self.written, module.code, self.text))
        if len(kept) != len(old):
            raise Unreadable("libcst would not write the statement as it reads it")
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        lines: list[str] = []
        for tag, first, last, low, high in matcher.get_opcodes():
            if tag == "equal":
                lines += kept[first:last]
                continue
            # A line that was changed keeps the indentation that it had; a new one has no form feed.
            had = {_margin(o): _margin(k) for o, k in zip(old[first:last], kept[first:last], strict=True)}
            lines += [had.get(m := _margin(n), m.replace("\f", "")) + n[len(m) :] for n in new[low:high]]
        return "".join(lines)


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def _without_feeds(text: str) -> str:
    """A text without the form feeds in its indentations; those in a string stay."""
    bare = _FEED.sub("", text)
    return bare if bare == text or ast.dump(ast.parse(bare)) == ast.dump(ast.parse(text)) else text


@lru_cache(maxsize=64)
def _tree(text: str, begin: int, newline: str) -> _Tree:
    return _Tree(text, begin, newline)


def _chunks(source: Source) -> list[tuple[int, int]]:
    """Where each top-level statement, with the comment above it, starts and where its last line ends; those that share
    a line are one."""
    found: list[tuple[int, int]] = []
    lines = source.lines
    for statement in source.tree.body:
        start, end = source.start_of(statement), lines.after(lines.line_of(source.span(statement)[1]))
        if begins_line(source, statement):
            start = lines.start(comment_above(source, statement))
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


# -- all edits of one file -------------------------------------------------------------------------------------------


def rewritten(source: Source, edits: Iterable[places.Edit]) -> str:
    """The text of a file with these edits made.

    Raises:
        OverlappingEdits: two of them change the same node, or one changes what another takes out.
        Unreadable: libcst cannot read the statement, or would not write it as it was.
        Unplaceable: the layout leaves no room for one of them.
    """
    with _deep():
        return _rewritten(source, list(edits))


@contextmanager
def _deep() -> Iterator[None]:
    """libcst goes down a tree by recursion: a sum of a thousand terms is a thousand levels deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _rewritten(source: Source, given: list[places.Edit]) -> str:
    wanted = [*dict.fromkeys(e for e in given if e.once), *(e for e in given if not e.once)]
    gone = {e.at for e in wanted if isinstance(e.change, places.Instead) and not e.change.texts}
    files = _Files(source, gone.intersection(c.at for e in wanted for c in _copies(getattr(e.change, "texts", ()))))
    parts: list[str] = []
    done = 0
    for start, end in files.chunks:
        own = [e for e in wanted if e.at is not None and start <= e.at.start < end]
        if own:
            _check(own)
            tree = files.tree(start, end)
            parts += (source.code[done:start], tree.text_with(files.changed(tree, tree.module, own)))
            done = end
    ending = (f"{t}{source.lines.newline}" for e in wanted if e.at is None for t in getattr(e.change, "texts", ()))
    return source.bom + "".join(parts) + source.code[done:] + "".join(ending)


def _check(edits: Sequence[places.Edit]) -> None:
    """Raise where an edit lies in what another one takes out."""
    for edit in edits:
        for other in edits if _takes_out(edit) else ():
            assert edit.at is not None and other.at is not None
            if other is edit or (other.at == edit.at and (other.change == edit.change or not _takes_out(other))):
                continue
            if other.at == edit.at:
                raise OverlappingEdits("two changes meet at the same place")
            if edit.at.holds(other.at) and not any(s.holds(other.at) for s in _spots(edit.change)):
                raise OverlappingEdits("a change lies within what another one takes out")


def _takes_out(edit: places.Edit) -> bool:
    """Whether what stands there is gone, but for the parts of it that are put elsewhere."""
    return isinstance(edit.change, places.Instead | places.Filled) and all(edit.at != s for s in _spots(edit.change))


def _spots(change: object) -> Iterator[places.Spot]:
    """The nodes that a change puts elsewhere, with what is changed inside them."""
    for text in (getattr(change, "written", None), getattr(change, "header", None), *getattr(change, "texts", ())):
        if isinstance(text, places.Written):
            yield from (part for _, part in text.parts if isinstance(part, places.Spot))
        elif isinstance(text, places.Below):
            yield from _spots(text)


def _copies(texts: Iterable[places.Text]) -> Iterator[places.Copied]:
    for text in texts:
        if isinstance(text, places.Copied):
            yield text
        elif isinstance(text, places.Below):
            yield from _copies(text.texts)


class _Files:
    """The trees of one file's top-level statements, and which statements are moved."""

    def __init__(self, source: Source, moved: Set[places.Spot | None]) -> None:
        self.source = source
        self.moved = moved
        self.chunks = _chunks(source)

    def tree(self, start: int, end: int) -> _Tree:
        return _tree(self.source.code[start:end], start, self.source.lines.newline)

    def _around(self, spot: places.Spot) -> _Tree:
        return self.tree(*next((s, e) for s, e in self.chunks if s <= spot.start < e))

    def changed(self, tree: _Tree, root: _Node, edits: Sequence[places.Edit]) -> _Node:
        """A node with these edits made inside it."""
        by_node: dict[_Node, list[places.Edit]] = {}
        for edit in edits:
            assert edit.at is not None
            own = by_node.setdefault(tree.node(edit.at), [])
            if edit not in own or not _takes_out(edit):
                own.append(edit)
        return root.visit(_Maker(self, tree, by_node))

    def expression(self, copied: places.Copied) -> _Node:
        """An expression as it stands in the file, or with edits."""
        tree = self._around(copied.at)
        return self.changed(tree, tree.node(copied.at), copied.edits)

    def _statement(self, spot: places.Spot) -> ast.stmt | None:
        lines = self.source.lines
        line = lines.line_of(spot.start)
        column = spot.start - lines.start(line) + 1
        return self.source.node_statement(places.Place(self.source.file, line, column, line, column + 1))

    def unit(self, spot: places.Spot) -> str:
        """How far a block is indented around a statement."""
        node = self._statement(spot)
        return indent_unit(self.source, node) if node is not None else "    "

    def comment(self, spot: places.Spot | None) -> int:
        """How many lines of comment go along with a statement: all of what they are about is moved."""
        node = self._statement(spot) if spot in self.moved and spot is not None else None
        if node is None or not begins_line(self.source, node):
            return 0
        first = comment_above(self.source, node)
        about = {places.Spot(*self.source.span(s), True) for s in paragraph(self.source, node)}
        goes = about <= self.moved and _IN_WORDS.match(self.source.lines.content(first))
        return self.source.lines.line_of(self.source.start_of(node)) - first if goes else 0

    def copy(self, copied: places.Copied) -> list[_Node]:
        """A statement's line, or the statement alone where it shares its line."""
        tree = self._around(copied.at)
        node = tree.node(copied.at)
        line = tree.parents[node]
        whole = line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else node
        if copied.edits:
            # A statement's own edits are made by the block that it stands in.
            block = cst.Module([_line(whole)])
            made = self.changed(tree, block, copied.edits).body
        else:
            made = [whole.deep_clone()]
        lines = [_line(m) for m in made]
        above = getattr(whole, "leading_lines", ())
        above = above[len(above) - self.comment(copied.at) :]
        return [lines[0].with_changes(leading_lines=above), *lines[1:]] if lines else []


def _line(statement: _Node) -> _Node:
    return statement if isinstance(statement, cst.BaseStatement) else cst.SimpleStatementLine([_unended(statement)])


def _unended(statement: _Node) -> _Node:
    return statement.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)


# -- the visit -------------------------------------------------------------------------------------------------------


class _Maker(cst.CSTTransformer):
    """Makes the edits of some nodes while the tree is written anew around them."""

    def __init__(self, files: _Files, tree: _Tree, edits: dict[_Node, list[places.Edit]]) -> None:
        super().__init__()
        self.files, self.tree, self.edits = files, tree, edits
        self.results: dict[_Node, _Node] = {}
        moved = (self._own(s) for own in edits.values() for e in own for s in _spots(e.change))
        self.open: set[_Node] = set()
        for start in [*edits, *moved]:
            node = start
            while node is not None and node not in self.open:
                self.open.add(node)
                node = tree.parents.get(node)

    def _own(self, spot: places.Spot) -> _Node:
        """The node in this tree; None where it stands in another one."""
        return self.tree.node(spot) if self.tree.holds(spot) else None

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self.open or not self.tree.parents.get(node)

    def on_leave(self, original: cst.CSTNode, updated: Any) -> Any:
        if isinstance(original, cst.Module | cst.IndentedBlock):
            rows = [_Row(self, o, u) for o, u in zip(original.body, updated.body, strict=True)]
            updated = _Block(self, rows, updated).made()
        elif isinstance(original, cst.SimpleStatementSuite):
            updated = _Block(self, [_Row(self, original, updated)], updated).on_the_line_of_its_header()
        elif isinstance(original, cst.BaseCompoundStatement):
            updated = self._listed(original, updated)
        elif isinstance(original, cst.BaseExpression):
            updated = self._listed(original, updated)
            self.results[original] = updated
            for edit in self.edits.get(original, ()):
                updated = self._expression(edit, original, updated)
                self.results[original] = updated
        if original in self.open:
            self.results[original] = updated
        return updated

    def _listed(self, original: _Node, node: _Node) -> _Node:
        """A node with the changes of what it lists; all of them count with the indices of the source."""
        for kind, make in ((places.Members, _with_members), (places.Decorators, _with_decorators)):
            changes = [e.change for e in self.edits.get(original, ()) if isinstance(e.change, kind)]
            if changes:
                node = make(node, {i for c in changes for i in c.dropped}, [t for c in changes for t in c.added])
        return node

    def _expression(self, edit: places.Edit, original: _Node, node: _Node) -> _Node:
        change = edit.change
        if isinstance(change, places.Filled):
            return self._filled(change, original, node)
        if isinstance(change, places.Named):
            attribute = isinstance(node, cst.Attribute)
            return node.with_changes(attr=cst.Name(change.name)) if attribute else node.with_changes(value=change.name)
        if isinstance(change, places.Members):
            return node
        raise Unreadable("no such change can be made to an expression")

    def _filled(self, change: places.Filled, original: _Node, node: _Node) -> _Node:
        parts = self.parts(change.written)
        made = _fill(parse_template_expression, change.written.template, parts)
        if made.lpar:
            return made
        code = _code(made)
        if node.lpar and parse_expression(code) is None:  # its lines may go on because of the parentheses
            return made.with_changes(lpar=node.lpar, rpar=node.rpar)
        around = self.tree.around(original)
        fits = isinstance(around, cst.Return | cst.Assign)
        if not isinstance(made, _LOOSE):
            fits = fits or isinstance(around, cst.BaseCompoundStatement) or self.tree.fits(code, original, around)
        return made if fits else _parenthesized(made)

    def parts(self, written: places.Written) -> dict[str, _Node]:
        """What stands for each name of a template."""
        return {name: self._part(part) for name, part in written.parts}

    def _part(self, part: places.Spot | places.Copied | str) -> _Node:
        if isinstance(part, places.Copied):
            copy = self.files.expression(part)
            return copy if "\n" in _code(copy) else copy.with_changes(lpar=[], rpar=[])
        if isinstance(part, str):
            try:
                return cst.parse_expression(part)
            except cst.ParserSyntaxError:
                return cst.parse_expression(f"({part})")
        found: _Node = self._own(part) or self.files.expression(places.Copied(part))
        made: _Node = self.results.get(found, found)
        return made.deep_clone()

    def lines(self, texts: Iterable[places.Text], unit: str) -> list[_Node]:
        """The statements that a change asks for, each a line or a compound statement."""
        found: list[_Node] = []
        for text in texts:
            if isinstance(text, places.Copied):
                found += self.files.copy(text)
            elif isinstance(text, places.Below):
                header = places.Written(f"{text.header.template}\n    pass", text.header.parts)
                body = _spaced(self.lines(text.texts, unit))
                block = self.block(body, unit)
                found += [made.with_changes(body=block) for made in self.lines([header], unit)]
            elif isinstance(text, places.Written):
                made = _fill(parse_template_module, text.template + "\n", self.parts(text))
                found += _indented(made, unit, self.tree.module.default_indent)
            elif text:
                found += _indented(cst.parse_module(text + "\n"), unit, self.tree.module.default_indent)
            else:
                found.append(cst.EmptyLine(indent=False))
        return found

    def block(self, lines: Sequence[_Node], unit: str, footer: Sequence[_Node] = ()) -> cst.IndentedBlock:
        """Lines below a header, indented by this much."""
        own = unit if unit != self.tree.module.default_indent else None
        return cst.IndentedBlock(list(lines), indent=own, footer=list(footer))


def _code(node: _Node) -> str:
    return cst.Module([]).code_for_node(node)


def _parenthesized(node: _Node) -> _Node:
    return node.with_changes(lpar=[cst.LeftParen(), *node.lpar], rpar=[*node.rpar, cst.RightParen()])


_TIGHT = cst.Name | cst.Attribute | cst.Call | cst.Slice


def _fill(parse: Any, template: str, parts: dict[str, _Node]) -> _Node:
    """A template with its parts, in parentheses only where it would mean something else without them."""
    grouped = [n for n, p in parts.items() if getattr(p, "lpar", ()) and not {"\n", "\r"} & set(_code(p))]
    bare = {n: p.with_changes(lpar=[], rpar=[]) if n in grouped else p for n, p in parts.items()}
    loose = [n for n, p in bare.items() if not isinstance(p, _TIGHT) and not p.lpar]
    safe = {n: p if n not in loose else parts[n] if parts[n].lpar else _parenthesized(p) for n, p in bare.items()}
    made = parse(template, **safe)
    for name in loose:
        tried = parse(template, **{**safe, name: bare[name]})
        if _meaning(tried) == _meaning(made):
            safe[name], made = bare[name], tried
    return made


def _meaning(node: _Node) -> str:
    """The syntax tree of an expression (which may go on over lines, as within brackets) or of a module."""
    text = _code(node)
    return _dumped(text if isinstance(node, cst.Module) else f"({text}\n)") or text


def _dumped(text: str) -> str:
    """The syntax tree of a text; empty where it has none."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return ""


# What a node lists: the field, and a text of such a node with one member.
_LISTS: dict[type, tuple[str, str]] = {
    cst.Call: ("args", "_({})"),
    cst.Tuple: ("elements", "({},)"),
    cst.List: ("elements", "[{}]"),
    cst.With: ("items", "with {}: pass"),
    cst.Parameters: ("params", "def _({}): pass"),
}


def _members(node: _Node) -> list[_Node]:
    return list(getattr(node, _LISTS[type(node)][0]))


def _with_members(node: _Node, dropped: set[int], added: Sequence[str]) -> _Node:
    """A node with fewer or more members; what stands between those that stay is kept."""
    if isinstance(node, cst.FunctionDef):
        return node.with_changes(params=_with_members(node.params, dropped, added))
    if type(node) not in _LISTS:
        raise Unreadable("no such change can be made there")
    field, like = _LISTS[type(node)]
    kept: list[_Node] = []
    old = _members(node)
    for index, member in enumerate(old):
        if index not in dropped:
            kept.append(member)
        elif kept and index == len(old) - 1:  # what stood before the closing parenthesis goes on standing there
            kept[-1] = kept[-1].with_changes(comma=_closing(kept[-1].comma, member.comma), **_behind(member))
    for text in added:
        made: _Node = cst.parse_statement(like.format(text))
        holder: _Node = getattr(made, "params", None) or (made if isinstance(made, cst.With) else made.body[0].value)
        new = _members(holder)[0]
        if kept:
            last = kept[-1]
            if isinstance(getattr(last, "value", None), cst.GeneratorExp) and not last.value.lpar:
                last = last.with_changes(value=_parenthesized(last.value))
            between = _between(kept)
            new = new.with_changes(comma=_at_the_end(last.comma, between), **_behind(last))
            kept[-1] = last.with_changes(comma=between, **{k: cst.SimpleWhitespace("") for k in _behind(last)})
        kept.append(new)
    return node.with_changes(**{field: kept})


def _between(members: list[_Node]) -> cst.Comma:
    """What parts a further member from these: where each has a line of its own, so has that one."""
    spaces = [m.comma.whitespace_after for m in members[:-1] if isinstance(m.comma, cst.Comma)]
    lines = [s for s in spaces if isinstance(s, cst.ParenthesizedWhitespace)]
    if not lines or len(lines) < len(spaces):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    end = cst.TrailingWhitespace(newline=lines[-1].first_line.newline)
    closing = getattr(members[-1].comma, "whitespace_after", None)
    if isinstance(closing, cst.ParenthesizedWhitespace):
        end = closing.first_line  # a comment stays beside what it is about
    return cst.Comma(whitespace_after=lines[-1].with_changes(first_line=end, empty_lines=[]))


def _at_the_end(comma: _Node, between: cst.Comma) -> _Node:
    """The comma of the last member so far, for a new last one: without the comment that stays ``between`` them."""
    if not (isinstance(comma, cst.Comma) and isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace)):
        return comma
    first = comma.whitespace_after.first_line
    if first is not getattr(between.whitespace_after, "first_line", None):
        return comma
    return comma.with_deep_changes(first, comment=None, whitespace=cst.SimpleWhitespace(""))


def _behind(member: _Node) -> dict[str, _Node]:
    """What stands behind an argument or parameter, before its comma or the closing parenthesis."""
    names = ("whitespace_after_arg", "whitespace_after_param")
    return {name: getattr(member, name) for name in names if hasattr(member, name)}


def _with_decorators(node: _Node, dropped: set[int], added: Sequence[str]) -> _Node:
    """A function or class with fewer or more decorators; the comments above those that go stay."""
    kept: list[_Node] = []
    above: list[_Node] = []
    for index, decorator in enumerate(node.decorators):
        if index in dropped:
            above += decorator.leading_lines
        else:
            kept.append(decorator.with_changes(leading_lines=[*above, *decorator.leading_lines]))
            above = []
    above += node.lines_after_decorators
    for text in added:
        kept.append(cst.Decorator(cst.parse_expression(text), leading_lines=above))
        above = []
    return node.with_changes(decorators=kept, lines_after_decorators=above)


def _closing(kept: _Node, gone: _Node) -> _Node:
    """The comma of the last member that stays, with the line end behind the one that goes, but not its comment."""
    own, after = (getattr(comma, "whitespace_after", None) for comma in (kept, gone))
    line = own.first_line if isinstance(own, cst.ParenthesizedWhitespace) else None
    commented = line is not None and line.comment is not None
    if not isinstance(after, cst.ParenthesizedWhitespace):
        return kept if commented else gone
    bare = after.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return gone.with_changes(whitespace_after=after.with_changes(first_line=line if commented else bare))


def _indented(module: cst.Module, unit: str, default: str) -> list[_Node]:
    """The statements of a text, their blocks indented as those of the file are."""
    made = module if unit == default else module.visit(_Unit(unit))
    return list(made.body)


class _Unit(cst.CSTTransformer):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def leave_IndentedBlock(self, _: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> Any:
        return updated_node.with_changes(indent=self.unit)


# -- statements in their blocks --------------------------------------------------------------------------------------


class _Row:
    """One line of a block (or one compound statement), as it was and with the changes inside its statements."""

    def __init__(self, maker: _Maker, original: _Node, updated: _Node) -> None:
        self.maker, self.line = maker, updated
        simple = isinstance(original, cst.SimpleStatementLine | cst.SimpleStatementSuite)
        self.originals: list[_Node] = list(original.body) if simple else [original]
        self.updated: list[_Node] = list(updated.body) if simple else [updated]
        self.shared = len(self.originals) > 1 or isinstance(original, cst.SimpleStatementSuite)
        self.suite = isinstance(original, cst.SimpleStatementSuite)

    def edits(self, node: _Node, kind: type) -> list[Any]:
        return [e.change for e in self.maker.edits.get(node, ()) if isinstance(e.change, kind)]

    @property
    def touched(self) -> bool:
        return any(self.maker.edits.get(n) for n in self.originals)

    @cached_property
    def above(self) -> list[_Node]:
        """What stands above the line, but for a comment that goes elsewhere with its statement."""
        lines = list(getattr(self.line, "leading_lines", []))
        spots = (e.at for e in self.maker.edits.get(self.originals[0], ()) if isinstance(e.change, places.Instead))
        return lines[: len(lines) - sum(self.maker.files.comment(s) for s in spots)]

    def _made(self, node: _Node, texts: Iterable[places.Text]) -> list[_Node]:
        spot = self.maker.edits[node][0].at
        assert spot is not None
        return self.maker.lines(texts, self.maker.files.unit(spot))

    def around(self, node: _Node, after: bool) -> list[_Node]:
        own = self.maker.edits.get(node, ())
        outside = bool(self.edits(node, places.Under)) and not after  # an import stands above the header
        return self._beside(node, [e for e in own if not (outside and e.once)], after)

    def above_header(self, node: _Node) -> list[_Node]:
        """What stands before a statement and stays outside when it goes below a header."""
        return self._beside(node, [e for e in self.maker.edits.get(node, ()) if e.once], False)

    def _beside(self, node: _Node, edits: Iterable[places.Edit], after: bool) -> list[_Node]:
        changes = [e.change for e in edits if isinstance(e.change, places.Beside)]
        texts = [t for c in changes if c.after == after for t in c.texts]
        return self._made(node, texts) if texts else []

    def in_place(self, node: _Node) -> list[_Node] | None:
        """What stands in the place of a statement; None where it stays."""
        opened = self.edits(node, places.Opened)
        if opened:
            return _opened(self.maker, opened[0])
        instead = self.edits(node, places.Instead)
        return self._made(node, instead[0].texts) if instead else None

    def lines(self, alone: bool) -> list[_Node]:
        """The lines that stand in the place of this one; ``alone``: nothing else stands in its block."""
        if not self.touched:
            return [self.line]
        if not self.shared:
            node = self.originals[0]
            instead = self.in_place(node)
            own = [self.line] if instead is None else instead
            if instead:
                own = _with_end_of(self.line, own)
            made = [*self.around(node, False), *own, *self.around(node, True)]
            if not made and alone:
                made = [_passing(self.line)]
            return _headed(made, self.line.leading_lines)
        return self._shared_lines(alone)

    def _shared_lines(self, alone: bool) -> list[_Node]:
        before: list[_Node] = []
        after: list[_Node] = []
        small: list[_Node] = []
        last = len(self.originals) - 1
        for index, (node, updated) in enumerate(zip(self.originals, self.updated, strict=True)):
            lead, instead, behind = self.around(node, False), self.in_place(node), self.around(node, True)
            if lead and not index and not self.suite:
                before += lead
            else:
                small += _small(lead)
            small += [updated] if instead is None else _small(instead)
            if behind and index == last and not self.suite:
                after += behind
            else:
                small += _small(behind)
        if not small and alone and not before and not after:
            small = [cst.Pass()]
        ended = [
            s.with_changes(semicolon=cst.Semicolon(whitespace_after=cst.SimpleWhitespace(" ")))
            if isinstance(s.semicolon, cst.MaybeSentinel)
            else s
            for s in small[:-1]
        ]
        final = small[-1:] if small and small[-1] is self.updated[-1] else [_unended(s) for s in small[-1:]]
        line = [self.line.with_changes(body=[*ended, *final])] if small else []
        if self.suite:
            return line
        return _headed([*before, *line, *after], self.line.leading_lines)

    def apart(self) -> list[tuple[_Node, list[_Node]]]:
        """Each statement with a line of its own."""
        made = []
        for index, (node, updated) in enumerate(zip(self.originals, self.updated, strict=True)):
            if self.maker.edits.get(node) and any(
                not isinstance(e.change, places.Under) for e in self.maker.edits[node]
            ):
                raise Unplaceable("the statements share lines with others")
            line = cst.SimpleStatementLine([_unended(updated)])
            if index == len(self.originals) - 1:
                line = line.with_changes(trailing_whitespace=self.line.trailing_whitespace)
            if not index and not self.suite:
                line = line.with_changes(leading_lines=self.line.leading_lines)
            made.append((node, [line]))
        return made


def _opened(maker: _Maker, change: places.Opened) -> list[_Node]:
    """The lines of that block of a compound statement in which a statement stands."""
    wanted = maker.tree.node(change.body)
    block = maker.tree.parents[wanted]
    if not isinstance(block, cst.IndentedBlock | cst.SimpleStatementSuite):
        block = maker.tree.parents[block]
    made: _Node = maker.results.get(block, block)
    if isinstance(made, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(made.body, trailing_whitespace=made.trailing_whitespace)]
    return list(made.body)


def _small(lines: Sequence[_Node]) -> list[_Node]:
    """Statements as they stand behind one another on one line."""
    found: list[_Node] = []
    for line in lines:
        if not isinstance(line, cst.SimpleStatementLine) or line.trailing_whitespace.comment is not None:
            raise Unplaceable("no compound statement fits into a one-line body")
        found += line.body
    return found


def _with_end_of(line: _Node, made: Sequence[_Node]) -> list[_Node]:
    """New lines of which the last keeps the comment of the old one."""
    ending = _ending(line)
    last = made[-1]
    if ending is None or not isinstance(last, cst.SimpleStatementLine) or last.trailing_whitespace.comment is not None:
        return list(made)
    return [*made[:-1], last.with_changes(trailing_whitespace=ending)]


def _ending(node: _Node) -> _Node | None:
    """What stands behind a statement on its last line."""
    while not hasattr(node, "trailing_whitespace"):
        inner = [c for c in node.children if isinstance(c, cst.BaseStatement) or hasattr(c, "body")]
        if not inner:
            return None
        node = inner[-1]
    return node.trailing_whitespace


def _passing(line: _Node) -> _Node:
    return cst.SimpleStatementLine([cst.Pass()], trailing_whitespace=_ending(line) or cst.TrailingWhitespace())


def _headed(lines: Sequence[_Node], above: Sequence[_Node]) -> list[_Node]:
    """Lines with what stood above the first of the old ones (comments, blank lines)."""
    if not lines:
        return []
    kept = any(getattr(m, "leading_lines", None) is above for m in lines[1:])
    if kept and any(e.comment is not None for e in lines[0].leading_lines):  # each with its own comment
        blank = list(takewhile(lambda e: e.comment is None, above))
        return _spaced([lines[0].with_changes(leading_lines=[*blank, *lines[0].leading_lines]), *lines[1:]])
    rest = [m.with_changes(leading_lines=[]) if getattr(m, "leading_lines", None) is above else m for m in lines[1:]]
    first = lines[0]
    own = [] if first.leading_lines is above else first.leading_lines
    return _spaced([first.with_changes(leading_lines=[*above, *own]), *rest])


def _spaced(lines: Sequence[_Node]) -> list[_Node]:
    """Lines with the blank ones between them put above those that follow."""
    found: list[_Node] = []
    blank: list[_Node] = []
    for line in lines:
        if isinstance(line, cst.EmptyLine):
            blank.append(line)
        else:
            found.append(line.with_changes(leading_lines=[*blank, *line.leading_lines]) if blank else line)
            blank = []
    return found


class _Block:
    """A block's lines: with new ones, without some, some of them below a header of their own."""

    def __init__(self, maker: _Maker, rows: list[_Row], updated: _Node) -> None:
        self.maker, self.rows, self.updated = maker, rows, updated

    def made(self) -> _Node:
        if not any(r.touched for r in self.rows):
            return self.updated
        # The text of one of several top-level statements may be empty.
        whole = isinstance(self.updated, cst.Module) and len(self.maker.files.chunks) > 1
        alone = len(self.rows) == 1 and not whole
        units: list[tuple[list[_Node], list[_Node], list[_Node]]] = []  # statements, lines, what stood above them
        for row in self.rows:
            if row.shared and any(row.edits(n, places.Under) for n in row.originals) and not self._whole(row):
                units += [([n], lines, []) for n, lines in row.apart()]
            else:
                units.append((row.originals, row.lines(alone), row.above))
        body, rest = self._joined(self._below(units))
        if not body and not whole:
            body, rest = _headed([_passing(self.rows[-1].line)], rest), []
        footer = [*rest, *self.updated.footer]
        if not body and not footer:
            return cst.Module([], has_trailing_newline=False)
        return self.updated.with_changes(body=body, footer=footer)

    def on_the_line_of_its_header(self) -> _Node:
        """The same of the one row that stands behind the colon; lines of its own where some go below a header."""
        (row,) = self.rows
        if not row.touched:
            return self.updated
        if not any(row.edits(n, places.Under) for n in row.originals):
            return row.lines(True)[0]
        body, _ = self._joined(self._below([([n], made, []) for n, made in row.apart()]))
        spot = next(e.at for n in row.originals for e in self.maker.edits.get(n, ()))
        assert spot is not None
        return self.maker.block(body, self.maker.files.unit(spot))

    def _whole(self, row: _Row) -> bool:
        """Whether what goes below a header are whole lines, this one among them."""
        changes = [c for n in row.originals for c in row.edits(n, places.Under)]
        first = bool(row.edits(row.originals[0], places.Under))
        return first and all(any(r.originals[-1] is self.maker.tree.node(c.last) for r in self.rows) for c in changes)

    def _below(self, units: list[Any]) -> list[Any]:
        """The units with headers put in: a header and what is below it are one unit."""
        for row in self.rows:
            for node in row.originals:
                for change in row.edits(node, places.Under):
                    units = self._headed(units, node, change)
        return units

    def _headed(self, units: list[Any], first: _Node, change: places.Under) -> list[Any]:
        last = self.maker.tree.node(change.last)
        try:
            low = next(i for i, u in enumerate(units) if first in u[0])
            high = next(i for i, u in enumerate(units) if last in u[0])
        except StopIteration as e:
            raise Unplaceable("the statements share lines with others") from e
        inner, rest = self._joined(units[low : high + 1])
        spot = next(e.at for e in self.maker.edits[first] if e.change == change)
        assert spot is not None
        unit = self.maker.files.unit(spot)
        header = cst.parse_module(f"{change.header}\n    pass\n").body[0]
        block = self.maker.block([inner[0].with_changes(leading_lines=[]), *inner[1:]], unit, rest)
        row = next(r for r in self.rows if first in r.originals)
        made = [*row.above_header(first), header.with_changes(body=block, leading_lines=[])]
        nodes = [n for u in units[low : high + 1] for n in u[0]]
        return [*units[:low], (nodes, _headed(made, inner[0].leading_lines), []), *units[high + 1 :]]

    @staticmethod
    def _joined(units: list[Any]) -> tuple[list[_Node], list[_Node]]:
        """The lines of all units; what stood above a line that is gone stands above the next one, or at the end."""
        found: list[_Node] = []
        carried: list[_Node] = []
        for _, lines, above in units:
            if not lines:
                carried += above
                continue
            own = lines[0].leading_lines
            if own and not any(e.comment for e in (own[0], *carried)):  # one blank line does for both
                carried = []
            found += [lines[0].with_changes(leading_lines=[*carried, *own]), *lines[1:]]
            carried = []
        return found, carried
