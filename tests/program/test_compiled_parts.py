"""A part that was compiled as one, and a backward call inside of what was compiled."""

from __future__ import annotations

from graphdoc.capture.places.frames import outside_compiled
from graphdoc.evidence import Event, Frame, Node
from graphdoc.program.spans import compiled_around

CALL = Frame("train.py", 20, 5, 20, 15, "<module>", True)
DYNAMO = Frame("/site-packages/torch/_dynamo/eval_frame.py", 9, 1, 9, 9, "compile_wrapper", False)
INSIDE = Frame("train.py", 3, 0, 3, 0, "step", True)
BACKWARD = Frame("train.py", 8, 5, 8, 20, "step", True)
LATER = Frame("train.py", 21, 5, 21, 20, "<module>", True)


def test_a_compiled_node_stands_where_it_is_called() -> None:
    assert outside_compiled("CompiledFunctionBackward", [CALL, DYNAMO, INSIDE]) == [CALL, DYNAMO]
    assert outside_compiled("AddBackward0", [CALL, INSIDE]) == [CALL, INSIDE]
    assert outside_compiled("CompiledFunctionBackward", [INSIDE]) == [INSIDE]  # no columns at all


def test_a_backward_inside_of_what_was_compiled() -> None:
    node = Node(0, "CompiledFunctionBackward", 4, [CALL, DYNAMO])
    assert compiled_around(node, Event(0, "backward", 9, [CALL, DYNAMO, BACKWARD]))
    assert not compiled_around(node, Event(0, "backward", 9, [LATER]))
    assert not compiled_around(Node(0, "AddBackward0", 4, [CALL]), Event(0, "backward", 9, [CALL, BACKWARD]))
