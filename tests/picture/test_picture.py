"""The picture of a run against what the program really did: which boxes, in which state, and where it broke."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "capture"))

from observed import run, script

from graphdoc.evidence import Evidence
from graphdoc.picture import picture_of
from graphdoc.shapes import Box, Picture

CARRIED = """
    cell = torch.nn.RNNCell(3, 4)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    state = torch.zeros(2, 4)
    for _ in range(3):
        state = cell(torch.randn(2, 3), state)
        loss = state.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
STEPPED = """
    body, head = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    loss = head(body(torch.randn(2, 3)).tanh()).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    loss.backward()
"""
SHARED = """
    trunk, left, right = (torch.nn.Linear(4, 4) for _ in range(3))
    first = torch.optim.SGD([*trunk.parameters(), *left.parameters()], lr=0.1)
    second = torch.optim.Adam(right.parameters(), lr=0.1)
    features = trunk(torch.randn(2, 4)).tanh()
    left(features).sum().backward()
    right(features).sum().backward()
"""
WRITTEN = """
    weight = torch.nn.Linear(3, 3)
    hidden = weight(torch.randn(2, 3)).exp()
    out = hidden * 2
    hidden.mul_(3)
    out.sum().backward()
    late = hidden + out
    late.sum().backward()
"""
CUT = """
    model = torch.nn.Linear(3, 1)
    loss = torch.tensor(model(torch.randn(2, 3)).sum().item())
    loss.backward()
"""
LARGE = """
    lines = ["import torch", "def net(x, w):"]
    lines += [f"    x = x * w + {i}" for i in range(150)]
    code = "\\n".join([*lines, "    return x"])
    open("net.py", "w").write(code)
    import sys; sys.path.insert(0, ".")
    from net import net
    modules = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(50))
    x = torch.ones(1)
    for module in modules:
        x = module(x)
    for _ in range(70):
        x = net(x, modules[0].weight[0])
    x.sum().backward()
    x.sum().backward()
"""


def evidence_of(folder: Path, source: str, mode: str = "observe") -> Evidence:
    folder.mkdir(exist_ok=True)
    seen = run(script(folder, source), mode=mode)
    assert not seen.troubles
    return seen.only


def at(picture: Picture, evidence: Evidence, text: str) -> list[Box]:
    """The boxes on the line with this text."""
    (line,) = [i for i, t in enumerate(evidence.sources["train.py"].splitlines(), 1) if text in t]
    return [box for box in picture.boxes if box.line == line]


def arrows(picture: Picture, way: str) -> list[tuple[int, int]]:
    return [(a.tail, a.head) for a in picture.arrows if a.way == way]


def test_the_edge_into_the_last_iteration_is_the_fatal_one(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, CARRIED)
    picture = picture_of(evidence)
    fresh, old = sorted(at(picture, evidence, "state = cell("), key=lambda b: b.state)
    assert (fresh.state, fresh.older, fresh.note) == ("live", False, "iteration 1")
    assert (old.state, old.older, old.note) == ("released", True, "iteration 0")
    assert arrows(picture, "fatal") == [(fresh.id, old.id)]
    calls = {box.text: box for box in at(picture, evidence, "loss.backward()")}
    assert arrows(picture, "freed") == [(calls["backward #1"].id, old.id)]
    assert calls["backward #2"].fatal and not calls["backward #1"].fatal


def test_a_step_that_overwrites_is_drawn_with_what_it_wrote(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, STEPPED)
    picture = picture_of(evidence)
    (write,) = [box for box in picture.boxes if box.kind == "write"]
    assert write.parameters == ("head.weight",) and write.note == "version 2, 1 expected"
    (stale,) = [box for box in picture.boxes if box.state == "stale"]
    assert arrows(picture, "overwrites") == [(write.id, stale.id)]
    (step,) = [m for m in picture.moments if m.kind == "step"]
    assert step.text == "overwrites `head.weight`"


def test_parameters_stand_with_their_owners(tmp_path: Path) -> None:
    picture = picture_of(evidence_of(tmp_path, SHARED))
    names = dict(picture.optimizers)
    held = {box.text: [names[o] for o in box.optimizers] for box in picture.boxes if box.kind == "parameters"}
    assert held == {"trunk.*": ["first"], "right.*": ["second"]}
    unowned = picture_of(evidence_of(tmp_path / "unowned", STEPPED.replace("head.parameters()", "[head.weight]")))
    assert {b.text: b.optimizers for b in unowned.boxes if b.kind == "parameters"}["body.*"] == ()


def test_a_write_of_the_programs_own_stands_between_the_calls_only_where_its_time_is_known(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, WRITTEN, "probe:writes")
    picture = picture_of(evidence)
    assert [m.kind for m in picture.moments if m.kind in ("write", "backward")] == ["write", "backward"]
    (write,) = [m for m in picture.moments if m.kind == "write"]
    assert "mul_" in write.text and at(picture, evidence, "hidden.mul_(3)")


def test_every_node_of_the_graph_is_in_one_box(tmp_path: Path) -> None:
    for name, source in {"carried": CARRIED, "stepped": STEPPED, "shared": SHARED}.items():
        evidence = evidence_of(tmp_path / name, source)
        boxes = picture_of(evidence).boxes
        assert sum(b.nodes for b in boxes if b.kind in ("operations", "parameters")) == evidence.graph_size


def test_without_a_graph_the_cut_is_drawn(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, CUT, "probe:cuts")
    picture = picture_of(evidence)
    (cut,) = [box for box in picture.boxes if box.kind == "gap"]
    assert cut in at(picture, evidence, ".item()")
    assert {a.way for a in picture.arrows} == {"broken"}


def test_what_was_not_recorded_is_said(tmp_path: Path) -> None:
    picture = picture_of(evidence_of(tmp_path, CUT))
    assert not picture.boxes and picture.gaps == ("The graphs of the calls of this run were not recorded.",)


@pytest.mark.slow
def test_a_graph_of_twenty_thousand_nodes_folds_to_what_can_be_read(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, LARGE)
    assert evidence.graph_size > 20_000 and evidence.folded is not None
    assert len(evidence.folded.parts) <= 400
    picture = picture_of(evidence)
    assert 4 < len(picture.boxes) <= 60
    assert sum(b.nodes for b in picture.boxes) == evidence.graph_size
    nets = [(b.state, b.line, b.last, b.nodes) for b in picture.boxes if b.file == "net.py"]
    assert sorted(nets) == [("live", 3, 152, 10_500), ("released", 3, 152, 10_500)]


def test_a_damaged_evidence_is_drawn_as_far_as_it_goes(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, CARRIED)
    assert evidence.folded is not None
    evidence.folded.edges += [[0], [0, 999, 1], [-5, 0, 1]]
    evidence.folded.homes = [999 for _ in evidence.folded.homes]
    evidence.folded.root = 77
    evidence.failing = 1000
    assert picture_of(evidence).boxes


def test_the_journal_is_told_from_its_end_and_the_rest_is_counted(tmp_path: Path) -> None:
    source = (
        CARRIED.replace("range(3)", "range(20)")
        .replace("state = cell(", "state = cell(")
        .replace("optimizer.step()", "optimizer.step(); state = state.detach() if _ < 18 else state")
    )
    picture = picture_of(evidence_of(tmp_path, source))
    assert picture.moments[-1].failed and picture.moments[-1].kind == "backward"
    assert dict(picture.before)["backward"] + sum(m.kind == "backward" for m in picture.moments) == 20
    assert [m.iteration for m in picture.moments if m.kind == "backward"][-2:] == [18, 19]
    assert all(m.made > 0 for m in picture.moments if m.kind == "forward")


DEEP = """
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(torch.nn.ModuleDict({"up": torch.nn.Linear(3, 3)}) for _ in range(20))
            self.head = torch.nn.Linear(3, 3)
        def forward(self, x, memory):
            x = x + memory
            for block in self.blocks:
                x = block["up"](x).tanh()
            return self.head(x), x.mean() + 0.0
    net = Net()
    optimizer = torch.optim.SGD(net.blocks.parameters(), lr=0.1)
    memory = torch.zeros(1)
    for _ in range(2):
        out, memory = net(torch.randn(2, 3), memory)
        optimizer.zero_grad()
        out.sum().backward()
"""


def test_the_release_of_the_node_that_failed_is_drawn_behind_operations_that_save_nothing(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path, DEEP)
    picture = picture_of(evidence)
    (failed,) = [box for box in picture.boxes if box.fatal and box.kind == "operations"]
    (old,) = [b for b in at(picture, evidence, 'block["up"](x).tanh()') if b.state == "released"]
    assert failed == old
    (call,) = [box for box in picture.boxes if box.note == "frees its graph"]
    assert arrows(picture, "freed") == [(call.id, old.id)]
    assert {head for _, head in arrows(picture, "fatal")} == {old.id}


def test_the_same_module_of_many_blocks_is_one_box_that_is_called_so(tmp_path: Path) -> None:
    picture = picture_of(evidence_of(tmp_path, DEEP))
    held = {box.text: (box.note, bool(box.optimizers)) for box in picture.boxes if box.kind == "parameters"}
    assert held == {"net.blocks.*.up.*": ("40 parameters", True), "net.head.*": ("2 parameters", False)}


def test_lines_that_became_one_box_are_told_with_their_function(tmp_path: Path) -> None:
    lines = "\n".join(f"        x = x * {1 + i / 100}" for i in range(60))
    source = f"""
    def grow(x):
{lines}
        return x
    x = torch.ones(2, requires_grad=True)
    loss = grow(x).prod()
    loss.backward()
    loss.backward()
"""
    picture = picture_of(evidence_of(tmp_path, source))
    (box,) = [b for b in picture.boxes if b.text == "grow"]
    assert box.last - box.line == 59 and box.nodes == 60
