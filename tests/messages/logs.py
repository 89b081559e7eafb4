"""Pieces of logs as real jobs leave them, for the tests of this folder."""

from __future__ import annotations

VERSION = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [32, 1]], which is output 0 of AsStridedBackward0, is at version 20; expected version 19 "
    "instead. Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable "
    "in question was changed in there or anywhere later. Good luck!"
)
SECOND = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access saved "
    "tensors after calling backward."
)


def traceback(message: str = VERSION, line: int = 61, kind: str = "RuntimeError") -> str:
    """What Python prints for a failed ``loss.backward()`` in ``train.py``."""
    return f"""Traceback (most recent call last):
  File "/home/runner/work/demo/train.py", line 90, in <module>
    main()
  File "/home/runner/work/demo/train.py", line {line}, in step
    loss.backward()
  File "/opt/venv/lib/python3.11/site-packages/torch/_tensor.py", line 630, in backward
    torch.autograd.backward(
  File "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py", line 865, in _engine_run_backward
    return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{kind}: {message}
"""


def prefixed(text: str, prefix: str) -> str:
    """Every line with the same decoration in front."""
    return "".join(prefix + line for line in text.splitlines(keepends=True))


FORWARD = """  File "/home/runner/work/demo/train.py", line 90, in <module>
    main()
  File "/home/runner/work/demo/train.py", line 40, in forward
    return self.head(features)
"""
TODAY = (
    "/opt/venv/lib/python3.11/site-packages/torch/autograd/graph.py:865: UserWarning: Error detected in "
    "AddmmBackward0. Traceback of forward call that caused the error:\n"
    + FORWARD
    + " (Triggered internally at /pytorch/torch/csrc/autograd/python_anomaly_mode.cpp:122.)\n"
    "  return Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass\n"
)
CPP = (
    "[W python_anomaly_mode.cpp:104] Warning: Error detected in AddmmBackward0. Traceback of forward call that caused "
    "the error:\n" + FORWARD + " (function _print_stack)\n"
)
FIRST = "sys:1: RuntimeWarning: Traceback of forward call that caused the error:\n" + FORWARD + "\n"
INDUCED = (
    TODAY
    + "/opt/x.py:865: UserWarning: \n\nPrevious calculation was induced by PowBackward0. Traceback of forward call "
    'that induced the previous calculation:\n  File "/home/runner/work/demo/train.py", line 12, in inner\n'
    "    y = x ** 2\n"
    " (Triggered internally at /pytorch/torch/csrc/autograd/python_anomaly_mode.cpp:140.)\n  return Variable\n"
)
