"""Features of installed packages that a program switches on by an argument, with their remedy in its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.evidence import Package, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.installed import Deed, Switch, given, switch_of
from graphdoc.program.spans import place, where


@dataclass(frozen=True)
class Feature:
    """A package's name for running layers under a checkpoint, and what makes the checkpoint a non-reentrant one.

    ``keyword`` and ``value`` go where the feature is switched on; ``instead`` is a call that cures it otherwise.
    """

    keyword: str
    value: str
    instead: str


CHECKPOINTING = {
    # transformers 4.35 and later: TrainingArguments and PreTrainedModel.gradient_checkpointing_enable take it, and
    # without it 4.x checkpoints in the reentrant form (transformers/modeling_utils.py).
    ("transformers", "gradient_checkpointing"): Feature(
        "gradient_checkpointing_kwargs", '{"use_reentrant": False}', "model.enable_input_require_grads()"
    ),
}


def checkpointing_switch(
    sources: SourceTexts, packages: list[Package], deed: Deed | None
) -> tuple[Switch | None, Feature | None]:
    """What switched a package's checkpoint on, and what is known of it there.

    Read off the condition around the package's line where that line is known; otherwise a name that a package on the
    stacks is known to use.
    """
    if deed is not None:
        switch = switch_of(sources, deed)
        return switch, CHECKPOINTING.get((deed.package.name, switch.name)) if switch is not None else None
    for (package, name), feature in CHECKPOINTING.items():
        if any(p.name == package for p in packages):
            for file in sources:
                switch = next(iter(given(sources, file, name)), None)
                if switch is not None:
                    return switch, feature
    return None, None


def checkpointing_remedies(switch: Switch, feature: Feature | None, package: str) -> Sequence[Remedy]:
    """The non-reentrant form where the feature is switched on; the package's own way to let the inputs have grad."""
    at = where(switch.call)
    if feature is None:
        return [
            Remedy(
                "non_reentrant",
                f"Ask {package} for the non-reentrant checkpoint (use_reentrant=False) where it is switched on: {at}",
                "display",
                "The same values, and the gradients that a call without checkpoint gives.",
            )
        ]
    return [
        Remedy(
            "set_keyword",
            f"Pass {feature.keyword}={feature.value}, at {at}",
            "safe",
            "The checkpoint is the non-reentrant one then: the same values, and the gradients that a call without "
            "checkpoint gives.",
            {"place": place(switch.call), "name": feature.keyword, "value": feature.value},
        ),
        Remedy(
            "require_input_grads",
            f"Call {feature.instead} before the training, if the reentrant form has to stay",
            "display",
            "What goes into the first layer then requires gradients, so that the checkpoint records it.",
        ),
    ]
