"""Where the input of a derivative was made, and under which name: followed from callee to caller as far as is seen."""

from __future__ import annotations

from dataclasses import dataclass

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program import bindings

_MODULE_CALLS = ("Module._call_impl", "Module._wrapped_call_impl", "Module.__call__")


@dataclass(frozen=True)
class MadeInput:
    """``name`` is the tensor's own at ``frame``. ``given``: a package hands it to the function that stands there."""

    name: str
    frame: Frame
    given: bool = False


def made_input(sources: SourceTexts, raised: Raised | None, name: str) -> MadeInput | None:
    """The assignment nearest to the innermost frame that has one.

    A helper's own argument name (``x``) leads to the caller, where the call's argument in that position has a name. A
    function that an installed package calls (a solver's right-hand side) is given what that package has made.
    """
    stack = raised.stack if raised else []
    own = [i for i in range(len(stack) - 1, -1, -1) if stack[i].user]
    wanted = name
    for number, index in enumerate(own):
        frame = stack[index]
        found = bindings.assignments(sources, frame, wanted)
        if found:
            return MadeInput(wanted, found[0][0])
        position = bindings.position_of_argument(sources, frame, wanted)
        if position is None or number + 1 >= len(own):
            return None
        between = stack[own[number + 1] + 1 : index]
        if any(not f.function.endswith(_MODULE_CALLS) for f in between):
            head = bindings.function_head(sources, frame)
            return MadeInput(wanted, head, given=True) if head is not None else None
        call = bindings.call_at(sources, stack[own[number + 1]])
        given = bindings.names_in(bindings.argument(call, position, wanted))
        if not given:
            return None
        wanted = given[0]
    return None
