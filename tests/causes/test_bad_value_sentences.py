"""What is said of the first value that is not finite is so: which function, at which edge, by which number."""

from __future__ import annotations

from pathlib import Path

import pytest
from seen import observe

HEAD = """import torch
import torch.nn.functional as F
w = torch.nn.Parameter(torch.tensor([0.5, 1.0, 2.0]))
optimizer = torch.optim.SGD([w], lr=0.1)
for i in range(4):
    optimizer.zero_grad()
    late = i > 1
"""
TAIL = """
    loss.backward()
    optimizer.step()
"""


@pytest.mark.breadth(3)
@pytest.mark.parametrize(
    ("line", "slug", "true", "false"),
    [
        ("torch.log1p(w * 0 - (1 if late else 0)).sum()", "nan-log-of-zero", "reaches -1", "zero"),
        ("torch.log1p(w * 0 - (2 if late else 0)).sum()", "nan-log-of-zero", "below -1", "below zero"),
        ("torch.logit(w * 0 + (1 if late else 0.5)).sum()", "nan-log-of-zero", "reaches 0 or 1", "reaches zero"),
        ("torch.rsqrt(w * 0 + (-1 if late else 1)).sum()", "nan-sqrt-at-zero", "below zero", "is zero"),
        ("torch.sqrt(w * 0 + (-1 if late else 1)).sum()", "nan-sqrt-at-zero", "below zero", "derivative"),
        ("torch.acos(w * 0 + (2 if late else 0)).sum()", "nan-acos-boundary", "no finite value", "derivative"),
        ("torch.atanh(w * 0 + (1 if late else 0)).sum()", "nan-acos-boundary", "at the edge", "outside"),
        ("torch.sinh(w * 0 + (200 if late else 1)).sum()", "nan-exp-overflow", "`sinh()`", "`exp()`"),
        ("torch.std(w[: 0 if late else 3]) + w.sum()", "nan-division-by-zero", "no elements", "single value"),
        ("torch.std(w[: 2 if late else 3], correction=2)", "nan-std-of-one", "its correction", "single value"),
        ("(torch.tensor([-1.0, 2, 3]).abs_() ** w).sum() if not late else (torch.tensor([-1.0, 2, 3]) ** (w * 0 + 2))"
         ".sum()", "nan-pow", "logarithm of the base", "at zero"),
        ("((w * (0 if late else 1)) ** -1).sum()", "nan-pow", "is infinite", "no value"),
        ("(w / (w * 0 + (1e-39 if late else 1))).sum()", "nan-division-by-zero", "close to zero", "is zero"),
        ("F.nll_loss(F.log_softmax(torch.stack([w, w * 2]), 1), torch.tensor([0, 0]), "
         "weight=torch.tensor([0.0 if late else 1.0, 1, 1]))", "nan-division-by-zero", "weight zero", "All targets"),
        ("torch.prod((w * 0 + (60000 if late else 1)).half())", "nan-half-overflow", "half precision", "has room"),
        ("(w * torch.full((3,), float('nan') if late else 1.0)).sum()", "nan-input-data", "as a constant",
         "from the data"),
        ("torch.autograd.grad((w * (0 if late else 1)).norm(), w, create_graph=True)[0].sum() + w.sum()",
         "nan-norm-at-zero", "is zero", "left out"),
        ("torch.xlogy(w, w * (-1 if late else 1)).sum()", "nan-log-of-zero", "else 1)` goes below zero", "reaches"),
        ("F.kl_div(w, target=w.detach() - (2 if late else 0))", "nan-log-of-zero",
         "`w.detach() - (2 if late else 0)`", "the input"),
        ("torch.nn.KLDivLoss()(w, w.detach() - (2 if late else 0))", "nan-log-of-zero",
         "`w.detach() - (2 if late else 0)`", "KLDivLoss()` goes"),
        ("torch.special.entr(w * (-1 if late else 1)).sum()", "nan-log-of-zero", "where `entr` is infinite", "nan"),
        ("torch.special.entr(w * (0 if late else 1)).sum()", "nan-log-of-zero", "no finite derivative", "below zero"),
        ("torch.erfinv(w * 0 + (1 if late else 0)).sum()", "nan-acos-boundary", "domain of `erfinv()`", "outside"),
        ("torch.digamma(w * (0 if late else 1)).sum()", "nan-singular-point", "are zero", "derivative"),
        ("torch.polygamma(1, w * (0 if late else 1)).sum()", "nan-singular-point", "of `w * (0 if late", "`1`"),
        ("torch.special.zeta(w.detach() * 0 + 2, w * (0 if late else 1)).sum()", "nan-singular-point",
         "second argument", "derivative"),
        ("torch.logdet(torch.diag(w) * (-1 if late else 1))", "nan-singular-point", "zero or negative", "constant"),
        ("torch.linalg.solve_triangular(torch.diag(w * (0 if late else 1)), torch.ones(3, 1), upper=True).sum()",
         "nan-singular-point", "a singular matrix", "derivative"),
        ("torch.hypot(w * (0 if late else 1), w * (0 if late else 1)).sum()", "nan-norm-at-zero", "is zero", "divides"),
        ("torch.div(w, w.detach() * (0 if late else 1)).sum()", "nan-division-by-zero",
         "`w.detach() * (0 if", "`w` is"),
        ("torch.fmod(w, w.detach() * (0 if late else 1)).sum()", "nan-division-by-zero",
         "`w.detach() * (0 if", "`w` is"),
        ("torch.i0(w * (100 if late else 1)).sum()", "nan-exp-overflow", "`i0()`", "`exp()`"),
        ("F.layer_norm(w * (0 if late else 1), (3,), eps=0).sum() + w.sum()", "nan-singular-point",
         "has no finite value there", "graphdoc does not know"),
        ("w.sum() + (float('inf') if late else 0)", "nonfinite-unexplained", "the first that meets inf", "makes"),
    ],
)  # fmt: skip
def test_what_is_told_of_the_first_bad_value_is_so(tmp_path: Path, line: str, slug: str, true: str, false: str) -> None:
    seen = observe(tmp_path, f"{HEAD}    loss = {line}{TAIL}")
    assert seen.slugs[:1] == [slug]
    assert true in seen.said
    assert false not in seen.said.replace("first nan or inf", "")


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    "line",
    [
        "(F.softplus(w * 0 + (3e38 if late else 1)) * 2).sum()",
        "(w.bfloat16() * (3e38 if late else 1) * 3).float().sum() * 0 + w.sum()",
    ],
)
def test_gradients_that_never_grew_have_not_exploded(tmp_path: Path, line: str) -> None:
    seen = observe(tmp_path, f"{HEAD}    loss = {line}{TAIL}")
    assert not {"exploding-gradients", "nan-half-overflow"} & set(seen.slugs)


def test_what_no_operation_made_is_not_told_by_what_stood_in_its_memory_before(tmp_path: Path) -> None:
    line = "x = w * 1.0\n    b = torch.tensor([-1.0 if late else 1.0, 2, 3])\n    loss = (b ** (x * 0 + 2)).sum()"
    seen = observe(tmp_path, f"{HEAD}    {line}{TAIL}")
    assert seen.slugs == ["nan-pow"]
    assert "x = w * 1.0" not in seen.lines("created")


BLOCK = """\
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


def silent(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


def layer(width):
    return weight_norm(silent(nn.Linear(width, width)))


model = nn.ModuleList([layer(4), layer(4)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    h = x
    for step in model:
        h = h + step(h)
    optimizer.zero_grad()
    h.square().mean().backward()
    optimizer.step()
"""


def test_a_weight_that_a_helper_fills_with_zeros_is_not_given_to_weight_norm(tmp_path: Path) -> None:
    told = observe(tmp_path, BLOCK)
    assert told.slugs == ["nan-norm-at-zero"]
    assert "return weight_norm(nn.Linear(width, width))" in told.patches()[0][1]["train.py"]
