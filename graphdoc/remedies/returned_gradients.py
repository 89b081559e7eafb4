"""A backward that returns too little, too much, or in another order than forward's inputs: what it is to return."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphdoc.evidence import Frame
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.custom_functions import Used
from graphdoc.program.input_gradients import InputGradients, input_gradients, returned_values
from graphdoc.remedies.fix_places import remedy_at


@dataclass(frozen=True)
class Returned:
    """A backward and where it returns what does not fit; ``statement`` is None where it comes to its end.

    ``inputs`` are the names of forward's arguments that it was given, ``function`` what the run saw of them.
    """

    place: Frame
    backward: ast.FunctionDef
    statement: ast.Return | None
    inputs: Sequence[str]
    function: Used | None

    @property
    def needs(self) -> tuple[bool, ...]:
        return self.function.needs if self.function is not None else ()

    @property
    def numbers(self) -> frozenset[int]:
        return self.function.numbers if self.function is not None else frozenset()


def returned_gradients(found: Returned, no_tensor: int = -1) -> tuple[Remedy, ...]:
    """Return for each input what backward computes for it; None for what is no tensor (``no_tensor``: this one).

    Nothing where all that would change is that None is added, or the values are written out as they are.
    """
    numbers = found.numbers | {no_tensor} - {-1}
    fits = input_gradients(found.backward, found.statement, found.inputs, found.needs, numbers)
    values = returned_values(found.statement)
    written = [bindings.text_of(v) for v in values]
    listed = found.statement is not None and isinstance(found.statement.value, ast.List)
    if fits is not None and (listed or [*fits.values][: len(written)] != written or _adds(fits.values, written)):
        told = ", ".join(fits.values)
        asked = remedy_at(
            found.place,
            "return_values",
            f"return `{told}`, a value for each input of forward",
            "unsafe",
            "Each input gets the gradient that is computed for it; whether the formulas are right, "
            "`torch.autograd.gradcheck` can tell.",
            values=list(fits.values),
        )
        left = _open(found.inputs, fits) if [*fits.values] != written else ""
        return tuple(replace(r, open=left) for r in asked)
    untold = any(v == "None" and i < len(found.needs) and found.needs[i] for i, v in enumerate(written))
    if 0 <= no_tensor < len(values) and not listed and not untold:
        return remedy_at(
            found.place,
            "return_values",
            f"return None for {_named(found.inputs, no_tensor)}",
            "safe",
            "It is no tensor, and there is no gradient to return for it.",
            values=[*written[:no_tensor], "None", *written[no_tensor + 1 :]],
        )
    return ()


def _adds(values: Sequence[str], written: Sequence[str]) -> bool:
    return any(v != "None" for v in values[len(written) :])


def _named(inputs: Sequence[str], index: int) -> str:
    return f"`{inputs[index]}`" if index < len(inputs) and inputs[index] else "what is no tensor"


def _open(inputs: Sequence[str], fits: InputGradients) -> str:
    """Which value is whose gradient, where only the order says so."""
    if not fits.by_order:
        return ""
    pairs = [f"`{v}` is the gradient of `{i}`" for i, v in zip(inputs, fits.values, strict=True) if i in fits.by_order]
    return f"that {' and '.join(pairs)} is read from their order alone"


def padded(found: Returned) -> tuple[Remedy, ...]:
    """None for the missing gradients. It is safe where the run shows that the arguments without a value were no
    tensors."""
    values, expected = returned_values(found.statement), len(found.inputs)
    missing = set(range(len(values), expected))
    if not missing or all(bindings.text_of(v) == "None" for v in values):
        return ()
    if any(i < len(found.needs) and found.needs[i] for i in missing):
        return ()  # one of them is to learn: None at its place would end the error and its gradient with it
    which = [f"`{found.inputs[i]}`" for i in sorted(missing) if found.inputs[i]]
    told = ", ".join(which) if len(which) == len(missing) else "the arguments that have no gradient"
    plain = len(found.needs) == expected and missing <= found.numbers
    note = "These arguments get no gradient through this Function; right for constants and for what is no tensor."
    if plain:
        verb = "is" if len(missing) == 1 else "are"
        note = (
            f"{told[0].upper()}{told[1:]} {verb} no tensor in any call of this run, so there is no gradient to return."
        )
    return remedy_at(
        found.place,
        "pad_return",
        f"Return None for {told}",
        "safe" if plain else "unsafe",
        note,
        count=expected,
    )
