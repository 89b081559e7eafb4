"""One loss that is differentiated a second time, for parameters that were written since: only a new forward helps."""

from __future__ import annotations

from graphdoc.finding import Remedy
from graphdoc.program.calls_in_order import Journal
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import where
from graphdoc.program.update_function import Scene

AGAIN = "The same loss is differentiated once more: compute it again, with the values of then."


def computed_again(found: Overwrite, at: Scene | None) -> list[Remedy]:
    """By hand: on clones of the parameters the second call would only give what the first one gave."""
    write = at.write if at is not None else found.writers[0].frame if found.writers else None
    behind = f" behind the write at {where(write)}" if write is not None else ""
    note = "With the values of its one forward pass the second call would give the gradient of the first one once more."
    return [Remedy("compute_again", f"Compute the loss again{behind}, before it is differentiated", "display", note)]


def of_another_optimizer(journal: Journal, found: Overwrite) -> bool:
    """Whether all the steps that wrote were of optimizers that the failing call does not work for."""
    works = journal.works_for(found.failing) if found.failing is not None else frozenset()
    return bool(found.steps) and not any(e.optimizer in works for e in found.steps)
