"""From raw stacks to the frames of the Evidence, and to keys by which two stacks are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from graphdoc.capture.places import code_places
from graphdoc.capture.places.code_places import OURS, characters, function_of, is_user_file, position, shown_file, spot
from graphdoc.capture.places.stacks import RawStack, Stack, stack_of
from graphdoc.evidence import Frame


def optimizer_functions(stack: Stack) -> set[str]:
    """Names of PyTorch's functions for optimizers that are under way; ``wrapper`` is around every step, the program's
    own optimizers' too (torch/optim/optimizer.py, ``profile_hook_step``)."""
    codes = stack.raw[::2]
    return {c.co_name for c in codes if "/torch/optim/" in str(c.co_filename).replace("\\", "/")}


MOST_FRAMES = 60


def frames_of(raw: RawStack | Stack, cwd: str) -> list[Frame]:
    """Turn a stack (raw pairs innermost first) into Evidence frames, outermost first, without frames of graphdoc.

    Library frames outside the user's outermost one (a launcher, runpy) are dropped; of the others the innermost
    ``MOST_FRAMES`` are kept.
    """
    out: list[Frame] = []
    if isinstance(raw, Stack):
        raw = raw.raw
    if raw and isinstance(raw[0], str):
        return _frames_of_text(raw, cwd)[-MOST_FRAMES:]
    for i in range(len(raw) - 2, -1, -2):
        code, lasti = raw[i], raw[i + 1]
        name = code.co_filename
        if name.startswith(OURS):
            continue
        user = is_user_file(name)
        if not user and not any(f.user for f in out):
            continue
        line, column, end_line, end_column = position(code, lasti)
        extent = line, characters(name, line, column), end_line, characters(name, end_line, end_column)
        frame = Frame(shown_file(name, cwd), *extent, function_of(code), user)
        out.append(code_places.in_its_cell(frame, name, out) if user and name.startswith("<") else frame)
    return out[-MOST_FRAMES:]


def outside_compiled(op: str, stack: list[Frame]) -> list[Frame]:
    """Where a node was made, as far as the stack can tell: all that `torch.compile` has compiled together is one node,
    and the frames in it carry the line at which their code begins, without columns. What calls it has its own."""
    if not op.startswith("CompiledFunction"):
        return stack
    first = next((i for i, f in enumerate(stack) if f.user and not f.column), len(stack))
    return stack[:first] if any(f.user for f in stack[:first]) else stack


def plain(frames: Iterable[Frame]) -> list[dict[str, Any]]:
    """Frames as plain data: so facts and extras of the Evidence hold them, and so a fork tells of them."""
    return [dict(vars(f)) for f in frames]


def user_stack(raw: RawStack | Stack, cwd: str) -> list[dict[str, Any]]:
    """The innermost frames of the user's own, as plain data."""
    return [vars(f) for f in frames_of(raw, cwd) if f.user][-6:]


def library_frames(raw: RawStack | Stack, cwd: str) -> list[dict[str, Any]]:
    """The frames of libraries that the innermost frame of the user's own called, outermost first, as plain data."""
    stack = frames_of(raw, cwd)
    return [vars(f) for f in stack[max((i for i, f in enumerate(stack) if f.user), default=len(stack)) + 1 :]]


_TEXT = re.compile(r'  File "(.*)", line (\d+), in (.*)')


def _frames_of_text(lines: list[str], cwd: str) -> list[Frame]:
    """Frames from anomaly mode's own text, where nothing better is known: no columns."""
    out: list[Frame] = []
    for match in filter(None, map(_TEXT.match, lines)):
        user = is_user_file(match[1])
        if user or out:
            line = int(match[2])
            out.append(Frame(shown_file(match[1], cwd), line, 0, line, 0, match[3], user))
    return out


def site_of(raw: RawStack | Stack, library: bool = False, depth: int = 400) -> tuple[int, ...]:
    """A stack as a hashable key: two nodes with the same key were made by the same expression, reached the same way.

    Args:
        library: keep the frames of libraries too, where they work for the innermost expression of the user's. Those
            that call the user's code are left out: LBFGS calls one closure from several lines of its own.
        depth: look at this many innermost frames only.
    """
    if isinstance(raw, Stack):
        raw = raw.raw
    if raw and isinstance(raw[0], str):
        return tuple(hash(line) for line in raw)
    out = []
    for i in range(0, min(len(raw), 2 * depth), 2):
        code = raw[i]
        if code.co_filename.startswith(OURS):
            continue  # a look that begins or ends while the program runs moves no place
        user = is_user_file(code.co_filename)
        if user or library:
            out.append(spot(code, raw[i + 1]))
        library = library and not user
    return tuple(out)


def made_at(node: Any) -> tuple[int, ...] | None:
    """The key of the place that has made a graph node; None where it is not known."""
    kept = stack_of(node)
    return site_of(kept) if kept is not None else None


def users_line(frames: list[Frame]) -> list[dict[str, Any]]:
    """The innermost line of the user's own code, as the facts of a sign hold it; empty for none."""
    return [vars(f) for f in frames if f.user][-1:]
