"""Messages that the installed torch really gives, provoked one by one: the words in the patterns are its own."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.optim import lr_scheduler
from torch.utils.checkpoint import checkpoint

from graphdoc.messages import recognise_exception


def _weight() -> nn.Parameter:
    return nn.Parameter(torch.ones(2, 2))


def _scheduler(**options: Any) -> lr_scheduler.OneCycleLR:
    optimizer = torch.optim.SGD([_weight()], lr=0.1)
    return lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, **options)


def _no_contexts() -> Any:
    return None, None


def _past_the_last_step() -> None:
    scheduler = _scheduler(total_steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            scheduler.step()


def _wrong_grad() -> None:
    weight = _weight()
    weight.grad = torch.ones(3)


def _parametrized() -> None:
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", nn.Identity())
    layer.weight = torch.ones(2, 2)


def _vmapped_item() -> None:
    torch.vmap(lambda x: x * x.item())(torch.ones(3))


def _dual_without_level() -> None:
    torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))


def _nested_profile() -> None:
    with torch.autograd.profiler.profile(use_kineto=False) as profile, profile:
        pass


def _empty_inputs() -> None:
    _weight().sum().backward(inputs=[])


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def right_inverse(self, x: torch.Tensor) -> float:
        return 1.0


def _bad_inverse() -> None:
    parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())


def _stacked() -> None:
    torch.func.stack_module_state([nn.Linear(2, 2), nn.ReLU()])


def _saved_number() -> None:
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(3)  # type: ignore[arg-type]
            return x * 2

    Saves.apply(_weight())


PROVOKED: list[tuple[Callable[[], object], str]] = [
    (lambda: torch.optim.SGD([_weight()], lr=-1.0), "optimizer"),
    (lambda: torch.optim.Adam([_weight()], betas=(2.0, 0.9)), "optimizer"),
    (lambda: torch.optim.Adam([_weight()], eps=-1.0), "optimizer"),
    (lambda: torch.optim.Adam([_weight()], fused=True, foreach=True), "optimizer"),
    (lambda: torch.optim.SGD([_weight()], lr=1.0, nesterov=True), "optimizer"),
    (lambda: torch.optim.LBFGS([{"params": [_weight()]}, {"params": [_weight()]}]), "optimizer"),
    (lambda: torch.optim.SparseAdam([_weight().to_sparse()]), "optimizer"),
    (lambda: _scheduler(), "optimizer"),
    (lambda: _scheduler(total_steps=-3), "optimizer"),
    (lambda: lr_scheduler.SequentialLR(torch.optim.SGD([_weight()]), [], milestones=[]), "optimizer"),
    (_past_the_last_step, "optimizer"),
    (_wrong_grad, "leaf-requires-grad"),
    (_parametrized, "nn-utils"),
    (_bad_inverse, "nn-utils"),
    (_vmapped_item, "functorch"),
    (_dual_without_level, "forward-ad"),
    (_nested_profile, "profiler"),
    (_empty_inputs, "no-graph"),
    (_stacked, "functorch"),
    (_saved_number, "custom-function"),
    (lambda: torch.func.grad(lambda x: x.sum(), argnums=3)(torch.ones(2)), "functorch"),
    (lambda: torch.func.jvp(torch.sin, torch.ones(2), torch.ones(2)), "functorch"),
    (lambda: torch.func.vjp(lambda x: "text", torch.ones(2)), "functorch"),
    (lambda: torch.vmap(torch.sin, randomness="some")(torch.ones(2)), "functorch"),
    (lambda: torch.autograd.functional.jacobian(torch.sin, torch.ones(2), strategy="other"), "functional"),
    (lambda: torch.amp.GradScaler("cpu", growth_factor=0.5), "amp"),
    (lambda: torch.gradient(torch.ones(3, dtype=torch.uint8)), "functional"),
    (lambda: checkpoint(torch.sin, torch.ones(2), use_reentrant=True, context_fn=_no_contexts), "checkpoint"),
    (lambda: iter(torch.tensor(1.0)), "no-graph"),
    (lambda: copy.deepcopy(_weight() * 2), "leaf-requires-grad"),
]


@pytest.mark.parametrize(("provoke", "family"), PROVOKED, ids=[str(i) for i in range(len(PROVOKED))])
def test_what_torch_really_says_is_recognised(provoke: Callable[[], object], family: str) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 (its text is what is tested)
        provoke()
    match = recognise_exception(type(caught.value).__name__, str(caught.value))
    assert match is not None, caught.value
    assert match.family == family, (match.id, str(caught.value))
