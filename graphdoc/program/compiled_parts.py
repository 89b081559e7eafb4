"""Parts of a graph that `torch.compile` has made one node of: what is compiled together is freed together."""

from __future__ import annotations

from graphdoc.evidence import Event, Node
from graphdoc.program.spans import innermost_user


def is_compiled(node: Node | None) -> bool:
    """Whether a node is all of a compiled part."""
    return node is not None and node.op.startswith("CompiledFunction")


def compiled_around(node: Node | None, call: Event | None) -> bool:
    """Whether a differentiating call was made inside of what was compiled together: a whole training step.

    Such a function is cut at the call, and what stands before it is one part, whatever was detached in there.
    """
    made = innermost_user(node.stack) if node is not None and is_compiled(node) else None
    return made is not None and call is not None and made in call.stack[:-1] and made != innermost_user(call.stack)
