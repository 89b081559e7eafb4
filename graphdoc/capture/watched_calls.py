"""Functions of PyTorch whose calls the journal notes: what clears gradients, and what loads parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture.inserted_calls import CannotInsert, insert_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoc.capture.witness import Witness


def watch_call(witness: Witness, function: Any, kind: str) -> None:
    """Note each call of the function in the journal, and let the audit hear of it."""
    journal = witness.journal

    def before(*values: Any) -> None:
        try:
            with witness.modes.left():
                ident = -1
                if kind == "zero_grad":
                    witness.anomaly.again()
                    seen = journal.optimizer(values[0])
                    ident = seen.id
                    if witness.audit is not None:
                        witness.audit.zeroed(values[0], seen)
                elif kind == "load_state_dict" and witness.audit is not None:
                    witness.audit.loaded(values[0], values[1])
                journal.add(kind, journal.look[kind](3), ident)  # before < that function < its caller
        except Exception as e:
            witness.trouble(e)

    _insert(witness, function, before, f"{kind} calls")


def watch_emptying(witness: Witness, function: Any) -> None:
    """A module clears gradients as well; the journal is the optimizers', so only the audit hears of it."""

    def before(module: Any, *_: Any) -> None:
        try:
            if witness.audit is not None and witness.audit.hears:
                with witness.modes.left():
                    witness.audit.emptied(module)
        except Exception as e:
            witness.trouble(e)

    _insert(witness, function, before, "zero_grad calls of modules")


def _insert(witness: Witness, function: Any, before: Callable[..., None], told: str) -> None:
    try:
        witness.undoing.append(insert_calls(function, before=before))
    except CannotInsert as e:
        witness.degraded.append(f"{told} were not observed: {e}")
