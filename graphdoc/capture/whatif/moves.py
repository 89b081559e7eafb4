"""How far parameters are moved, and which way: along what they were given, or anywhere."""

from __future__ import annotations

from typing import Any

STEPS = {"float64": (1e-4, 1e-5), "float32": (3e-3, 1e-3, 1e-2), "bfloat16": (1e-1, 3e-2), "float16": (3e-2, 1e-2)}
"""By type of number: how far, in parts of a parameter's size, the first choice first. A difference in the loss has to
stand clear of the rounding of the loss, and what is curved has to look straight."""
FAR = (3e-2, 1e-1, 1.0)
"""Steps by which what is rounded to whole numbers moves as well."""
UTMOST = 30.0
"""One by which what is bounded, a ``tanh`` or a ``softmax``, comes to its ends: whole numbers lie there alone."""
SMALLEST = 1e-2
"""The size that a parameter is taken to have at least: many begin at zero."""


def steps_for(parameters: list[Any]) -> tuple[float, ...]:
    """The steps to try, those of the coarsest type among the parameters."""
    names = {str(p.dtype).rpartition(".")[2] for p in parameters}
    return max((STEPS[n] for n in names if n in STEPS), key=max, default=STEPS["float32"])


def size_of(parameter: Any) -> float:
    """The root of the mean square of its numbers."""
    flat = parameter.detach().double()
    return max(float(flat.pow(2).mean().sqrt()), SMALLEST)


def reach_of(parameter: Any) -> float:
    """How far a move by its own size goes."""
    return size_of(parameter) * float(parameter.numel() ** 0.5)


def is_matrix(parameter: Any) -> bool:
    """Whether it multiplies, as far as its shape tells; what is added, as a bias is, may cancel by design."""
    return len([n for n in parameter.shape if n > 1]) > 1


def anywhere(torch: Any, parameters: list[Any], chosen: set[int]) -> list[Any]:
    """A random direction for the chosen ones; no generator of the program's is touched."""
    generator = torch.Generator().manual_seed(2)

    def way(p: Any) -> Any:
        return torch.randn(p.numel(), generator=generator, dtype=torch.float32) * size_of(p)

    return [way(p) if i in chosen else None for i, p in enumerate(parameters)]


def along(parameters: list[Any], given: list[Any], chosen: set[int]) -> list[Any]:
    """The direction of the gradient, each parameter by as much as its size allows."""
    lengths = [float(g.double().norm()) if i in chosen else 0.0 for i, g in enumerate(given)]
    rows = zip(parameters, given, lengths, strict=True)
    return [g * (reach_of(p) / length) if length else None for p, g, length in rows]


def across(torch: Any, parameters: list[Any], given: list[Any], chosen: set[int]) -> list[Any]:
    """A random direction in which the gradient says that nothing happens, by each parameter as far as ``anywhere``."""
    out = anywhere(torch, parameters, chosen)
    for i in chosen:
        g = given[i].double()
        square = float((g * g).sum())
        if square:
            out[i] -= (g * (float((g * out[i].double()).sum()) / square)).float()
    return out


def slope_by(given: list[Any], directions: list[Any]) -> float:
    """What the gradient says that the loss does, per step in these directions."""
    pairs = zip(given, directions, strict=True)
    return sum(float((g.double() * d.double()).sum()) for g, d in pairs if d is not None and g is not None)
