"""Values that a function makes at its first use and keeps: it has run again since, past the line that makes them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.evidence import Event, Frame, Holder, Node, SourceTexts
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.spans import innermost_user
from graphdoc.source.paths import covers


def kept_since_first_use(sources: SourceTexts, producer: Node | None, consumer: Node | None, freeing: Event) -> bool:
    """Whether the older value was made in an arm of an ``if`` of a function, and a later run of that function went past
    this ``if`` without it and took the old value.

    ``if self.scale is None: self.scale = …``, and below it ``x / self.scale``: known where the value was made under the
    condition before the ``freeing`` call, and is taken behind the whole ``if`` after it. A call from within the
    function proves nothing, since both may lie in one run of it.
    """
    if producer is None or consumer is None or not producer.sequence < freeing.sequence <= consumer.sequence:
        return False
    under_way = {(f.file, f.function) for f in freeing.stack}
    for made in (f for f in producer.stack if f.user and (f.file, f.function) not in under_way):
        taken = [f for f in consumer.stack if (f.file, f.function) == (made.file, made.function)]
        if any(_behind_the_arm(sources, made, f) for f in taken):
            return True
    return False


def kept_by_package(
    sources: SourceTexts,
    holders: Sequence[Holder],
    producer: Node | None,
    consumer: Node | None,
    freeing: Event | None,
) -> bool:
    """Whether a package keeps the older value to itself, and what ran when the value was made has run again behind the
    ``freeing`` call and took the value as it was: a function of the package, or the program's own line.

    To itself: under a private attribute alone that no line of the program names.
    """
    if producer is None or consumer is None or freeing is None or not holders:
        return False
    if not producer.sequence < freeing.sequence <= consumer.sequence:
        return False
    under_way = {(f.file, f.function) for f in freeing.stack}
    ran = {(f.file, f.function) for f in producer.stack if not f.user} - under_way
    made, taken = innermost_user(producer.stack), innermost_user(consumer.stack)
    one_line = made is not None and taken is not None and (made.file, made.line) == (taken.file, taken.line)
    again = one_line or any((f.file, f.function) in ran for f in consumer.stack)
    return again and all(_is_private(sources, holder) for holder in holders)


def _is_private(sources: SourceTexts, holder: Holder) -> bool:
    names = {s.key for s in holder.steps if s.kind == "attribute" and s.key.startswith("_")}
    roots = [root for file in sources if (root := tree(sources, file)) is not None]
    return bool(names - {n.attr for root in roots for n in ast.walk(root) if isinstance(n, ast.Attribute)})


def _behind_the_arm(sources: SourceTexts, made: Frame, taken: Frame) -> bool:
    """Whether one line stands in an arm of an ``if`` of this function, and the other behind the whole ``if``."""
    root = tree(sources, made.file)
    function = function_around(root, made.line) if root is not None else None
    if function is None or not covers(function, taken.line):
        return False
    return any(
        isinstance(n, ast.If) and covers(n, made.line) and taken.line > (n.end_lineno or n.lineno) and not n.orelse
        for n in ast.walk(function)
    )
