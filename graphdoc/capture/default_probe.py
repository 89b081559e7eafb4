"""The probe that every run has: what other parts do not look at and costs nothing until the program fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture.scaling import ScalerCalls

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoc.capture.autopsy import Autopsy
    from graphdoc.capture.witness import Witness
    from graphdoc.evidence import Evidence, Sign


class DefaultProbe:
    """The user's Functions in the failing graph, the calls of a GradScaler, the tensor that an optimizer refused."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._scaler = ScalerCalls()

    @classmethod
    def start(cls, witness: Witness) -> DefaultProbe:
        probe = cls(witness)
        witness.undoing += probe._scaler.watch(witness)
        return probe

    @property
    def scaled(self) -> bool:
        """Whether a GradScaler was used."""
        return self._scaler.used

    @property
    def scaler_calls(self) -> list[Any]:
        """Its latest calls, oldest first."""
        return list(self._scaler.calls)

    def fill_scaler(self, evidence: Evidence, cwd: str) -> None:
        """Tell them of a run that was not ended by one."""
        self._scaler.fill_ended(evidence, cwd)

    @property
    def starved(self) -> dict[str, Any] | None:
        """What is known of a GradScaler that leaves out every step (see ``graphdoc.capture.scaling``)."""
        return self._scaler.starved

    def audited(self) -> list[Sign]:
        """What a run that goes on tells of it."""
        return self._scaler.signs(self._witness.cwd)

    def fill(self, evidence: Evidence, autopsy: Autopsy, roots: list[Any], _outputs: list[Any]) -> None:
        """Called for each failure; what cannot be told is left out, and never costs the rest of the evidence."""
        from graphdoc.capture import functions, refused, resharded

        parts: list[Callable[[], None]] = [
            lambda: functions.fill(evidence, autopsy, roots),
            lambda: self._scaler.fill(evidence, autopsy.cwd),
            lambda: resharded.fill(evidence, autopsy) if roots else None,
        ]
        if not roots:
            parts.append(lambda: refused.fill(evidence, autopsy))
        for tell in parts:
            try:
                tell()
            except Exception as e:
                self._witness.trouble(e)
