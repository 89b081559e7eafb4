"""Several losses of one block: what is computed again behind a step, and what one loss takes as a constant."""

from __future__ import annotations

from typing import Any

import pytest
from marked import FILE, fixed, unmark

from graphdoc.fixes.between_losses import through_network
from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.source.module import Source

ONE = {"places": ["@0"], "after": "@1"}

RECOMPUTED = [
    # the forward, and what leads from it to the loss, moves; what does not depend on it stays
    (
        "«y = net(x)»\nz = 2 * y\nw = x.mean()\n«opt.step()»  # now\nloss = z.sum() + w\n",
        ONE,
        "w = x.mean()\nopt.step()  # now\ny = net(x)\nz = 2 * y\nloss = z.sum() + w\n",
    ),
    # what the first loss uses too is copied and stays where it is
    (
        "«y = net(x)»\ny.sum().backward()\n«opt.step()»\nloss = y.mean()\n",
        ONE,
        "y = net(x)\ny.sum().backward()\nopt.step()\ny = net(x)\nloss = y.mean()\n",
    ),
    # only what the named backward call needs
    (
        "«y = net(x)»\na = y + 1\nb = y * 2\n«opt.step()»\n«a.sum().backward()»\nprint(b)\n",
        {**ONE, "backward": "@2"},
        "y = net(x)\nb = y * 2\nopt.step()\ny = net(x)\na = y + 1\na.sum().backward()\nprint(b)\n",
    ),
    # a sum that is begun anew behind the step
    (
        "«loss = f(net(x))»\nloss += reg\n«opt.step()»\nloss.backward()\n",
        ONE,
        "opt.step()\nloss = f(net(x))\nloss += reg\nloss.backward()\n",
    ),
    # a sum is also read where it is added to: its start cannot move away from there
    (
        "«y = net(x)»\nz = y + 1\ny += 1\n«opt.step()»\nuse(z)\n",
        ONE,
        "y = net(x)\ny += 1\nopt.step()\ny = net(x)\nz = y + 1\nuse(z)\n",
    ),
    # the step stands deeper: the forward goes behind the whole statement that holds it, with its indentation
    (
        "def fit():\n\tfor x in xs:\n\t\t«y = net(\n\t\t\tx)»\n\t\tif due:\n\t\t\t«opt.step()»\n\t\tuse(y)\n",
        ONE,
        "def fit():\n\tfor x in xs:\n\t\tif due:\n\t\t\topt.step()\n\t\ty = net(\n\t\t\tx)\n\t\tuse(y)\n",
    ),
    # step and backward stand in one branch: what the backward needs runs again in it, and the rest is left alone
    (
        "«y = net(x)»\nn += y.shape[0]\nz = y.sum()\nif due:\n    d.backward()\n    «opt.step()»\n"
        "    «z.backward()»\nuse(n)\n",
        {**ONE, "backward": "@2"},
        "y = net(x)\nn += y.shape[0]\nz = y.sum()\nif due:\n    d.backward()\n    opt.step()\n"
        "    y = net(x)\n    z = y.sum()\n    z.backward()\nuse(n)\n",
    ),
    # the same, two blocks deep
    (
        "«y = net(x)»\nz = y.sum()\nwith on():\n    if due:\n        «opt.step()»\n        «z.backward()»\n",
        {**ONE, "backward": "@2"},
        "y = net(x)\nz = y.sum()\nwith on():\n    if due:\n        opt.step()\n"
        "        y = net(x)\n        z = y.sum()\n        z.backward()\n",
    ),
    # the loss takes the value up in a branch: it may, so the value is wanted behind the step
    (
        "«y = net(x)»\ny.sum().backward()\n«opt.step()»\nif w:\n    z = y * 2\n«z.sum().backward()»\n",
        {**ONE, "backward": "@2"},
        "y = net(x)\ny.sum().backward()\nopt.step()\ny = net(x)\nif w:\n    z = y * 2\nz.sum().backward()\n",
    ),
    # the branch of the step makes its own loss of the value: the step was not made with it
    (
        "«y = net(x)»\nif due:\n    f(y).backward()\n    «opt.step()»\nuse(y)\n",
        ONE,
        "y = net(x)\nif due:\n    f(y).backward()\n    opt.step()\ny = net(x)\nuse(y)\n",
    ),
    # a block that only sets a mode is set again around what runs in it again; one that is left empty goes
    (
        "with autocast('cuda'):\n    «y = net(x)»\n    w = x + 1\n    z = f(y)\n«opt.step()»\nuse(z, w)\n",
        ONE,
        "with autocast('cuda'):\n    w = x + 1\nopt.step()\nwith autocast('cuda'):\n    y = net(x)\n    z = f(y)\n"
        "use(z, w)\n",
    ),
    (
        "with autocast():\n  «y = net(\n    x)»\nz = f(y)\nwith no_grad(), autocast():\n  a = g(z)\n«opt.step()»\n"
        "use(z, a)\n",
        ONE,
        "opt.step()\nwith autocast():\n  y = net(\n    x)\nz = f(y)\nwith no_grad(), autocast():\n  a = g(z)\n"
        "use(z, a)\n",
    ),
    # the call stands in a branch: what that branch binds itself, or reads behind the call, is not wanted for its sake
    (
        "«y = net(x)»\ng = grad(y)\n«opt.step()»\nif due:\n    «h = grad(y.sum())»\n    for g in h:\n        use(g)\n",
        {**ONE, "backward": "@2"},
        "y = net(x)\ng = grad(y)\nopt.step()\ny = net(x)\n"
        "if due:\n    h = grad(y.sum())\n    for g in h:\n        use(g)\n",
    ),
    # what is no more than data for this loss stays and is read detached; the other loss keeps its gradient
    (
        "«out = net(z)»\nscore = judge(\n    out['image'].view(-1), out.shape)\ng(score)\n«opt.step()»\nuse(score)\n",
        {**ONE, "constants": ["@0"]},
        "out = net(z)\nscore = judge(\n    out['image'].view(-1), out.shape)\ng(score)\nopt.step()\n"
        "score = judge(\n    out['image'].detach().view(-1), out.shape)\nuse(score)\n",
    ),
    # of a tuple only what the loss takes is bound again: what else came out is read behind it as it was
    (
        "«q, p = net(x)»\ng(q)\n«opt.step()»\nloss = f(p)\n«loss.backward()»\nlog(q)\n",
        {**ONE, "backward": "@2"},
        "q, p = net(x)\ng(q)\nopt.step()\n_, p = net(x)\nloss = f(p)\nloss.backward()\nlog(q)\n",
    ),
    # where `_` means something (a translation), it is no place to put a value
    (
        "print(_('train'))\n«q, p = net(x)»\ng(q)\n«opt.step()»\nloss = f(p)\n«loss.backward()»\nlog(q)\n",
        {**ONE, "backward": "@2"},
        "print(_('train'))\nq, p = net(x)\ng(q)\nopt.step()\nq, p = net(x)\nloss = f(p)\nloss.backward()\nlog(q)\n",
    ),
    # two forwards keep their order
    (
        "«a = f(x)»\n«b = g(a)»\n«opt.step()»\nh(a, b)\n",
        {"places": ["@1", "@0"], "after": "@2"},
        "opt.step()\na = f(x)\nb = g(a)\nh(a, b)\n",
    ),
]


@pytest.mark.parametrize(("source", "args", "expected"), RECOMPUTED)
def test_computes_again(source: str, args: dict[str, Any], expected: str) -> None:
    assert fixed("recompute_after", source, None, **args) == expected


NOT_RECOMPUTED = [
    ("«y = net(x)»\n«opt.step()»\nprint(x)\n", ONE, "nothing that the forward has bound"),
    ("«opt.step()»\n«y = net(x)»\nuse(y)\n", {"places": ["@1"], "after": "@0"}, "after the write already"),
    ("def f():\n    «y = net(x)»\n«opt.step()»\n", ONE, "different functions"),
    ("if a:\n    «y = net(x)»\n«opt.step()»\nuse(y)\n", ONE, "a loop, a branch or a call"),
    ("with open(f) as g:\n    «y = net(x)»\n«opt.step()»\nuse(y)\n", ONE, "a loop, a branch or a call"),
    ("with sync():\n    «y = net(x)»\n«opt.step()»\nuse(y)\n", ONE, "a loop, a branch or a call"),
    ("«ys.append(net(x))»\n«opt.step()»\nuse(ys)\n", ONE, "a loop, a branch or a call"),
    ("«y = net(x)»\nx = x + 1\n«opt.step()»\nuse(y)\n", ONE, "may have changed by then"),
    (
        "«y = net(x)»\nif due:\n    x = 2\n    «opt.step()»\n    «y.backward()»\n",
        {**ONE, "backward": "@2"},
        "may have changed by then",
    ),
    ("«y = net(x)»\nfor x in xs: pass\n«opt.step()»\nuse(y)\n", ONE, "may have changed by then"),
    ("«y = net(x)»\nx[0] = 1\n«opt.step()»\nuse(y)\n", ONE, "may have changed by then"),
    ("«y = net(x)»\nx.clamp_(0, 1)\n«opt.step()»\nuse(y)\n", ONE, "may have changed by then"),
    ("«y = net(s.x)»\nif new: s.x = read()\n«opt.step()»\nuse(y)\n", ONE, "may have changed by then"),
    ("«y = net(x)»\nz = f(y)\ny = other(x)\n«opt.step()»\nuse(z, y)\n", ONE, "may have changed by then"),
    (
        "«y = net(x)»\nz = f(y)\ny = g(y)\n«opt.step()»\n«z.backward()»\nprint(y)\n",
        {**ONE, "backward": "@2"},
        "y has another value by then",
    ),
    ("«total += net(x)»\n«opt.step()»\nuse(total)\n", ONE, "added to twice"),
    (
        "«y = net(x)»\ng = grad(f(y), ps)\nfast = sub(ps, g)\n«update(ps, g)»\n«h(fast).backward()»\n",
        {**ONE, "backward": "@2"},
        "step is made with g",
    ),
    (
        "«y = net(x)»\ngs = grad(f(y), ps)\nfor p, g in zip(ps, gs):\n    «p -= g»\n«h(y, gs).backward()»\n",
        {**ONE, "backward": "@2"},
        "step is made with gs",
    ),
    ("«y = net(x)»\nz = y(x)\n«opt.step()»\nuse(z)\n", {**ONE, "constants": ["@0"]}, "y is called"),
    ("«y = net(x)»\n«opt.step()»\nuse(y)\n", {**ONE, "constants": ["@0"]}, "nothing that the forward has bound"),
    ("«y = net(x)»\nz = y.shape\n«opt.step()»\nuse(z)\n", {**ONE, "constants": ["@0"]}, "by its name"),
    ("«y = net(z := x)»\n«opt.step()»\nuse(y)\n", ONE, "more than compute"),
    (
        "«y = net(x)»\nif mean:\n    loss = f(y)\nelse:\n    loss = g(y)\n«opt.step()»\n«loss.backward()»\n",
        {**ONE, "backward": "@2"},
        "loss is computed from it in a branch",
    ),
]


@pytest.mark.parametrize(("source", "args", "reason"), NOT_RECOMPUTED)
def test_does_not_compute_again(source: str, args: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("recompute_after", source, None, **args)


UPDATED = [
    # the whole update goes before the forward; what lies between and has no part in it stays
    (
        "«s = D(f)»\ng += h(s)\navg += d.item()\nd.backward()\n«o.step()»\no.zero_grad()\n\ng.backward()\np.step()\n",
        "d.backward()\no.step()\no.zero_grad()\ns = D(f)\ng += h(s)\navg += d.item()\n\ng.backward()\np.step()\n",
    ),
    # the loss of this update comes along, with its clearing and clipping
    (
        "«s = D(f)»\nd = e(r)\nd = d * 2\no.zero_grad()\nd.backward()\nclip(o)\n«o.step()»\nl = h(s)\nl.backward()\n",
        "d = e(r)\nd = d * 2\no.zero_grad()\nd.backward()\nclip(o)\no.step()\ns = D(f)\nl = h(s)\nl.backward()\n",
    ),
]
BEFORE = {"places": ["@0"], "steps": ["@1"]}


@pytest.mark.parametrize(("source", "expected"), UPDATED)
def test_updates_before_the_forward(source: str, expected: str) -> None:
    assert fixed("update_before", source, None, **BEFORE) == expected


NOT_UPDATED = [
    ("«s = D(f)»\nd = h(s)\nd.backward()\n«o.step()»\n", "made of the same forward"),
    ("d.backward()\n«s = D(f)»\n«o.step()»\n", "do not stand together"),
    ("«s = D(f)»\nd.backward()\nn = d.item()\n«o.step()»\n", "do not stand together"),
    ("«s = D(f)»\nif due:\n    d.backward()\n    «o.step()»\n", "branch or a loop of its own"),
    ("«s = D(f)»\nq.zero_grad()\nx = s\nd.backward()\n«o.step()»\n", "takes part in an update"),
    ("«s = D(f)»\nn = w.grad\nd.backward()\n«o.step()»\n", "takes part in an update"),
    ("«s = D(f)»\nif bad(s): continue\nd.backward()\n«o.step()»\n", "not every way"),
    ("«s = D(f)»\nsave(D)\nd.backward()\n«o.step()»\n", "may change what the update uses"),
    ("«s = D(f)»\nu = d\nd = e(r)\nd.backward()\n«o.step()»\n", "would have another value"),
    ("«s = D(f)»\nfor r in rs: pass\ne(r).backward()\n«o.step()»\n", "r would have another value"),
]


@pytest.mark.parametrize(("source", "reason"), NOT_UPDATED)
def test_does_not_update_before(source: str, reason: str) -> None:
    program = "for x in xs:\n" + "".join(f"    {line}\n" for line in source.splitlines())
    with pytest.raises(CannotFix, match=reason):
        fixed("update_before", program, None, **BEFORE)


def test_an_update_inside_of_what_is_crossed_is_seen_by_the_run() -> None:
    source = "«s = D(f)»\nm = train(s)\nd.backward()\n«o.step()»\n"
    with pytest.raises(CannotFix, match="takes part in an update"):
        fixed("update_before", source, None, **BEFORE, busy=[2])


LAST = {"places": ["@0"], "backward": "@1"}
BOTH = {"places": ["@0"], "backward": "@2", "others": ["@1"]}

DETACHED = [
    (
        "«y = net(x)»\nloss = crit(y, t)\n«loss.backward()»\n",
        LAST,
        "y = net(x)\nloss = crit(y.detach(), t)\nloss.backward()\n",
    ),
    # the other loss keeps its gradient
    (
        "«y = net(x)»\na = f(y)\n«a.backward()»\nb = g(y) + h(x, y)\n«b.backward()»\n",
        BOTH,
        "y = net(x)\na = f(y)\na.backward()\nb = g(y.detach()) + h(x, y.detach())\nb.backward()\n",
    ),
    # through a statement that both losses share: where the second leaves it
    (
        "«y = net(x)»\nz = y.tanh()\na = f(z)\n«a.backward()»\nb = z.shape[0] * g(z)\n«b.backward()»\n",
        BOTH,
        "y = net(x)\nz = y.tanh()\na = f(z)\na.backward()\nb = z.shape[0] * g(z.detach())\nb.backward()\n",
    ),
    # through a statement of its own: at its head
    (
        "«y = net(x)»\nz = y.tanh()\nb = g(z)\n«b.backward()»\n",
        LAST,
        "y = net(x)\nz = y.detach().tanh()\nb = g(z)\nb.backward()\n",
    ),
    (
        "def fit(self):\n    «self.y = net(x)»\n    loss = 0\n    loss += crit(self.y)\n    «loss.backward()»\n",
        LAST,
        "def fit(self):\n    self.y = net(x)\n    loss = 0\n    loss += crit(self.y.detach())\n    loss.backward()\n",
    ),
    # two values
    (
        "«p, q» = net(x)\n«r = old(x)»\nloss = f(p, q) - r\n«loss.backward()»\n",
        {"places": ["@0", "@1"], "backward": "@2"},
        "p, q = net(x)\nr = old(x)\nloss = f(p.detach(), q.detach()) - r.detach()\nloss.backward()\n",
    ),
]


@pytest.mark.parametrize(("source", "args", "expected"), DETACHED)
def test_detaches_between(source: str, args: dict[str, Any], expected: str) -> None:
    assert fixed("detach_between", source, None, **args) == expected


NOT_DETACHED = [
    ("«loss = net(x).sum()»\n«loss.backward()»\n", LAST, "statement of its own"),
    ("«y = net(x)»\nloss = f(x)\n«loss.backward()»\n", LAST, "statement of its own"),
    # both calls walk the very same statements
    ("«y = net(x)»\nb = f(y)\n«b.backward(retain_graph=True)»\n«b.backward()»\n", BOTH, "statement of its own"),
    ("«y = net(x)»\nloss = f(y.detach())\n«loss.backward()»\n", LAST, "already detached"),
]


@pytest.mark.parametrize(("source", "args", "reason"), NOT_DETACHED)
def test_does_not_detach_between(source: str, args: dict[str, Any], reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("detach_between", source, None, **args)


SCORED = [
    (
        "«img = net(z)»\ns = judge(img)\na = f(s)\nb = g(s) + h(s)\n«a.backward()»\n«b.backward()»\n",
        "img = net(z)\ns = judge(img)\na = f(s)\nb = g(judge(img.detach())) + h(judge(img.detach()))\n"
        "a.backward()\nb.backward()\n",
    ),
    (
        "«out = net(z)»\ns = self.nets['judge'](out['img'])\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n",
        "out = net(z)\ns = self.nets['judge'](out['img'])\na = f(s)\nb = g(self.nets['judge'](out['img'].detach()))\n"
        "a.backward()\nb.backward()\n",
    ),
]
SCORED += [
    (
        "«img = net(z)»\nheld = img\ns = judge(held)\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n",
        "img = net(z)\nheld = img\ns = judge(held)\na = f(s)\nb = g(judge(held.detach()))\n"
        "a.backward()\nb.backward()\n",
    ),
    # what is computed again may stand on several lines
    (
        "«img = net(z)»\ns, t = judge(\n    img,\n)\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n",
        "img = net(z)\ns, t = judge(\n    img,\n)\na = f(s)\nb = g(judge(\n    img.detach(),\n)[0])\n"
        "a.backward()\nb.backward()\n",
    ),
]
LOSSES = {"places": ["@0"], "others": ["@1"], "backward": "@2"}


@pytest.mark.parametrize(("source", "expected"), SCORED)
def test_scores_the_detached_value_again(source: str, expected: str) -> None:
    assert fixed("score_detached", source, None, **LOSSES) == expected


def test_what_trains_is_known_by_its_line_where_the_graph_tells() -> None:
    """A network may go by another name here than its parameters do."""
    source = "«img = net(z)»\ns = self.judge(img)\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n"
    mended = fixed("score_detached", source, None, **LOSSES, through=[(2, 2)])
    assert "b = g(self.judge(img.detach()))" in mended
    with pytest.raises(CannotFix, match="takes the constant itself"):
        fixed("score_detached", source, None, **LOSSES, through=[(3, 3)])


NOT_SCORED = [
    ("«v = net(z)»\na = f(v)\nb = g(v)\n«a.backward()»\n«b.backward()»\n", "takes the constant itself"),
    ("«v = net(z)»\ns = torch.cat([v, w])\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n", "in one statement"),
    ("«v = net(z)»\ns = j(v)\nt = k(s)\na = f(t)\nb = g(t)\n«a.backward()»\n«b.backward()»\n", "in one statement"),
]


@pytest.mark.parametrize(("source", "reason"), NOT_SCORED)
def test_scores_nothing_again(source: str, reason: str) -> None:
    with pytest.raises(CannotFix, match=reason):
        fixed("score_detached", source, None, **LOSSES)


@pytest.mark.parametrize(
    ("source", "through"),
    [
        ("«v = net(z)»\ns = j(v)\nt = k(s)\na = f(t)\nb = g(t)\n«a.backward()»\n«b.backward()»\n", True),
        ("«v = net(z)»\ns = v.flatten()\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n", False),
        ("«v = net(z)»\ns = torch.cat([v, w])\na = f(s)\nb = g(s)\n«a.backward()»\n«b.backward()»\n", False),
    ],
)
def test_what_a_call_made_of_the_value_may_be_trained(source: str, through: bool) -> None:
    text, (made, first, second) = unmark(source)
    args = {"places": [made], "others": [first], "backward": second}
    assert through_network({FILE: Source(FILE, text)}, args) is through
