"""``Trainer(callbacks=[GraphDoc()])``: the diagnosis of a Lightning fit that fails, without another way to start it.

Lightning tells its callbacks of an exception while its traceback is alive; Hugging Face's Trainer and Accelerate do
not, so there ``with graphdoc.observe():`` around the training is what serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.doors.piece import Pieces, here, tell_failure

if TYPE_CHECKING:
    Callback: Any = object
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        from pytorch_lightning import Callback


class GraphDoc(Callback):  # type: ignore[misc]
    """Observes what the trainer does, from its set-up to its end; says on stderr what broke the graph."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: Pieces | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 (Lightning names them)
        """A fit, a validation or a test begins."""
        self._pieces = Pieces(here())
        self._pieces.begin()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """It fails."""
        if self._pieces is not None and isinstance(exception, Exception):
            tell_failure(self._pieces, exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002
        """It is over."""
        if self._pieces is not None:
            self._pieces.close()
            self._pieces = None
