"""Where a package runs the loop, the places and the patches are in what it calls of the user's for each batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import run_forked
from installed import ON_PATH, install
from seen import Seen, observe

LOOPS = {
    "tinyloops/__init__.py": """\
        from .loop import Accelerator, Callback, Trainer
    """,
    "tinyloops/loop.py": """\
        class Callback:
            def before_backward(self, module, loss):
                pass

            def batch_ended(self, module):
                pass


        class _Connector:
            def __init__(self):
                self._module = None
                self._optimizers = []


        class Trainer:
            def __init__(self, callbacks=()):
                self._connector = _Connector()
                self.callbacks = list(callbacks)

            def fit(self, module, batches):
                self._connector._module = module
                self._connector._optimizers = [module.configure()]
                for number, batch in enumerate(batches):
                    self._run(batch, number)

            def _run(self, batch, number):
                module = self._connector._module
                (optimizer,) = self._connector._optimizers

                def closure():
                    loss = module.training_step(batch, number)
                    optimizer.zero_grad()
                    for callback in self.callbacks:
                        callback.before_backward(module, loss)
                    self._backward(loss)
                    return loss

                optimizer.step(closure)
                for callback in self.callbacks:
                    callback.batch_ended(module)

            def _backward(self, loss):
                (loss / 2).backward()


        class Accelerator:
            def backward(self, loss):
                (loss / 2).backward()
    """,
}
MODULE = (
    ON_PATH
    + """
import torch
from tinyloops import Accelerator, Callback, Trainer
from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 8)
        self.head = nn.Linear(8, 1)
        self.state = None

    def forward(self, x):
FORWARD

    def training_step(self, batch, number):
        loss = self(batch).pow(2).mean()
        return loss

    def configure(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


CALLBACK
torch.manual_seed(0)
trainer = Trainer(CALLBACKS)
trainer.fit(Forecaster(), torch.randn(4, 2, 3))
"""
)
PLAIN = "        h = self.cell(x)\n        return self.head(h)"
CARRIED = "        self.state = self.cell(x, self.state)\n        return self.head(self.state)"
IN_PLACE = "        h = self.cell(x).sigmoid()\n        h *= 0.5\n        return self.head(h)"
CLIP = """\
class Clip(Callback):
    def before_backward(self, module, loss):
        with torch.no_grad():
            for p in module.parameters():
                p.clamp_(-0.1, 0.1)


"""
LINE = "trainer.fit(Forecaster(), torch.randn(4, 2, 3))"


def program(forward: str = PLAIN, callback: str = "") -> str:
    text = MODULE.replace("FORWARD", forward).replace("CALLBACKS", "[Clip()]" if callback else "")
    return text.replace("CALLBACK\n", callback)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install(tmp_path, "tinyloops", "1.2", LOOPS)
    return tmp_path


def spoken(told: Seen) -> str:
    finding = told.found[0].finding
    return "\n".join([finding.title, finding.explanation, *finding.facts, *(s.label for s in finding.spans)])


def patched(told: Seen) -> list[dict[str, str]]:
    return [texts for _, texts in told.patches()]


def test_state_carried_from_one_batch_to_the_next(folder: Path) -> None:
    told = observe(folder, program(CARRIED))
    assert told.slugs[0] == "carried-state"
    assert told.lines("cause")[0] == "self.state = self.cell(x, self.state)"
    assert LINE not in told.lines("cause")


def test_state_is_cut_in_the_function_that_is_called_for_each_batch(folder: Path) -> None:
    told = observe(folder, program(CARRIED))
    assert told.found[0].finding.remedies[0].kind == "detach_after"
    first, *others = patched(told)
    assert "        loss = self(batch).pow(2).mean()\n        self.state = self.state.detach()\n" in first["train.py"]
    assert all(f"{LINE}\n" == text["train.py"][-len(LINE) - 1 :] for text in (first, *others))
    for number, texts in enumerate((first, *others)):
        script = folder / f"patched_{number}.py"
        script.write_text(texts["train.py"])
        assert run_forked(script).status == 0


def test_state_is_not_cut_where_it_is_kept_if_its_cell_learns_through_that_alone(folder: Path) -> None:
    short = program(CARRIED).replace(
        "        loss = self(batch).pow(2).mean()\n        return loss", "        return self(batch).pow(2).mean()"
    )
    told = observe(folder, short)
    assert told.slugs[0] == "carried-state" and not patched(told)


def test_state_of_the_batchs_function_is_cut_where_it_is_read(folder: Path) -> None:
    """The start is no kept place, and the recurrent cell goes on learning."""
    short = program(CARRIED).replace(
        "        loss = self(batch).pow(2).mean()\n        return loss",
        "        if self.state is None:\n"
        "            self.state = torch.zeros(2, 8) + 0.5\n"
        "        self.state = self.cell(batch, self.state)\n"
        "        return self.head(self.state).pow(2).mean()",
    )
    told = observe(folder, short)
    assert told.slugs[0] == "carried-state"
    assert told.lines("cause") == ["self.state = self.cell(batch, self.state)"]
    text = patched(told)[0]["train.py"]
    assert "self.state = self.cell(batch, self.state.detach())" in text
    learns = "print(all(p.grad.any() for p in trainer._connector._module.cell.parameters()))\n"
    (folder / "patched.py").write_text(text + learns)
    done = run_forked(folder / "patched.py")
    assert (done.status, done.stdout) == (0, "True\n")


@pytest.mark.parametrize(
    ("start", "told_first"),
    [
        ("self.state if self.state is not None else torch.zeros(2, 8)", True),
        ("self.state if self.state is not None else None", False),  # what may be None has no detach
    ],
)
def test_state_that_is_read_under_a_local_name(folder: Path, start: str, told_first: bool) -> None:
    short = program(CARRIED).replace(
        "        loss = self(batch).pow(2).mean()\n        return loss",
        f"        h = {start}\n"
        "        self.state = self.cell(batch, h)\n"
        "        return self.head(self.state).pow(2).mean()",
    )
    told = observe(folder, short)
    texts = [text["train.py"] for text in patched(told)]
    cut = "self.state = self.cell(batch, h.detach())"
    assert told.slugs[0] == "carried-state" and any(cut in text for text in texts) == told_first
    if told_first:
        assert cut in texts[0]
        learns = "print(all(p.grad.any() for p in trainer._connector._module.cell.parameters()))\n"
        (folder / "patched.py").write_text(texts[0] + learns)
        done = run_forked(folder / "patched.py")
        assert (done.status, done.stdout) == (0, "True\n")


def test_names_are_the_users_and_not_the_librarys(folder: Path) -> None:
    told = observe(folder, program(CARRIED))
    assert "_connector" not in spoken(told) and "_module" not in spoken(told)
    assert "Forecaster.state" in spoken(told) and "Forecaster.cell.*" in spoken(told)
    assert "updated by the Adam of `" in spoken(told)


@pytest.mark.breadth(1)
@pytest.mark.parametrize("nested", [False, True], ids=["itself", "within"])
def test_module_that_no_name_leads_to_goes_by_its_class(folder: Path, nested: bool) -> None:
    """Neither the trainer nor the module is bound to a name: what the module keeps is found all the same."""
    unnamed = program(CARRIED).replace("trainer = Trainer()\n", "").replace("trainer.fit", "Trainer().fit")
    if nested:
        unnamed = unnamed.replace("class Forecaster", "class Inner").replace(
            "torch.manual_seed(0)",
            "class Forecaster(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.net = Inner()\n\n    def training_step(self, batch, number):\n"
            "        return self.net.training_step(batch, number)\n\n    def configure(self):\n"
            "        return self.net.configure()\n\n\ntorch.manual_seed(0)",
        )
    told = observe(folder, unnamed)
    kept = "Forecaster.net" if nested else "Forecaster"
    assert told.slugs[0] == "carried-state"
    assert f"`{kept}.state` carries" in told.found[0].finding.title and f"`{kept}.cell.*`" in spoken(told)
    cuts = [texts["train.py"] for texts in patched(told)]
    assert nested or "self.state = self.state.detach()" in cuts[0]
    assert not any("self.cell(x, self.state).detach()" in cut for cut in cuts), "the cell would learn no more"


HANDED = """\
class Handed(torch.optim.Optimizer):
    def __init__(self, optimizer):
        self.__dict__.update(optimizer.__dict__)
        self.inner = optimizer

    def step(self):
        self.inner.step()


"""


def test_object_about_an_optimizer_is_that_optimizer(folder: Path) -> None:
    """A package's own object stands for the user's: cleared by the one and stepped by the other, it is one owner."""
    own = program(CARRIED).replace(
        LINE,
        f"{HANDED}model = Forecaster()\noptimizer = Handed(model.configure())\n"
        "for batch in torch.randn(4, 2, 3):\n    loss = model.training_step(batch, 0)\n    optimizer.zero_grad()\n"
        "    loss.backward()\n    optimizer.step()\n",
    )
    told = observe(folder, own)
    assert told.evidence is not None
    (optimizer,) = told.evidence.optimizers
    assert (optimizer.name, optimizer.type, optimizer.steps) == ("optimizer", "Adam", 1)
    assert {e.optimizer for e in told.evidence.events if e.kind in ("step", "zero_grad")} == {optimizer.id}


def test_write_in_the_users_forward(folder: Path) -> None:
    told = observe(folder, program(IN_PLACE))
    assert told.slugs[0] == "inplace-on-saved-activation"
    assert told.lines("cause") == ["h *= 0.5"]
    assert "Adam" not in spoken(told)
    assert told.patches()[0][0] == "out_of_place"


def test_write_in_a_callback_between_forward_and_backward(folder: Path) -> None:
    told = observe(folder, program(callback=CLIP))
    assert told.slugs[0] == "parameter-overwritten"
    assert told.lines("cause") == ["p.clamp_(-0.1, 0.1)"]
    text = spoken(told)
    assert "tinyloops 1.2 calls `Clip.before_backward` after `Forecaster.training_step`" in text
    assert any("after the step" in r.title for r in told.found[0].finding.remedies)


def test_package_whose_code_another_package_runs(folder: Path) -> None:
    """Nothing of the user's runs for a batch: he is sent to where he chose the code, or switched it on."""
    blocks = {
        "tinynets.py": """\
            import torch


            class Gated(torch.nn.Module):
                def __init__(self, width, scaled=True):
                    super().__init__()
                    self.inner, self.scaled = torch.nn.Linear(width, width), scaled

                def training_step(self, batch, number):
                    gate = torch.sigmoid(self.inner(batch))
                    if self.scaled:
                        gate *= 0.5
                    return gate.mean()

                def configure(self):
                    return torch.optim.Adam(self.parameters())
        """
    }
    install(folder, "tinynets", "0.1", blocks)
    for given, line in (("", "model = Gated(3)"), (", scaled=True", "model = Gated(3, scaled=True)")):
        told = observe(
            folder / ("on" if given else "off"),
            ON_PATH.replace('"site', f'"{folder}/site')
            + "import torch\nfrom tinyloops import Trainer\nfrom tinynets import Gated\n\n"
            + f"model = Gated(3{given})\nTrainer().fit(model, torch.randn(3, 2, 3))\n",
        )
        assert told.slugs[0] == "inplace-on-saved-activation"
        assert told.lines_of_user("cause") == [line]
        assert "tinynets 0.1 writes into" in told.found[0].finding.explanation
        assert not told.patches()


def test_backward_call_is_said_to_be_the_packages(folder: Path) -> None:
    told = observe(folder, program(CARRIED))
    (failed,) = [s for s in told.found[0].finding.spans if s.role == "failed"]
    assert "tinyloops 1.2 calls it below this line" in failed.label


TOTAL = """\
        loss = self(batch).pow(2).mean()
        self.total = loss if number == 0 else self.total + loss
        return self.total
"""
AHEAD = """\
        aim = self(batch) if number == 0 else self.ahead
        self.ahead = self(batch + 1)
        return (aim - 1).pow(2).mean()
"""
ONCE = """\
        if number == 0:
            self.scale = self.head.weight.exp().sum()
        return self(batch).pow(2).mean() * self.scale
"""
STEP = "        loss = self(batch).pow(2).mean()\n        return loss\n"


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("step", "slugs", "lines"),
    [
        (TOTAL, ["accumulated-loss"], ["self.total = loss if number == 0 else self.total + loss"]),
        (AHEAD, ["optimizer-step-before-backward"], ["self.ahead = self(batch + 1)", "return self.head(h)"]),
        (ONCE, ["graph-built-once", "carried-state"], ["self.scale = self.head.weight.exp().sum()"]),
    ],
    ids=["total", "ahead", "once"],
)
def test_other_faults_of_a_batch_are_told_in_what_is_called_for_it(
    folder: Path, step: str, slugs: list[str], lines: list[str]
) -> None:
    told = observe(folder, program().replace(STEP, step))
    assert told.slugs[0] in slugs
    assert set(told.lines("cause")) & set(lines), told.lines("cause")
    assert LINE not in told.lines("cause")
    assert all(text["train.py"].endswith(f"{LINE}\n") for text in patched(told))


def test_callback_that_writes_after_the_step_is_left_alone(folder: Path) -> None:
    told = observe(
        folder, program(callback=CLIP.replace("before_backward(self, module, loss)", "batch_ended(self, module)"))
    )
    assert told.found == []


def test_loop_of_the_users_own_is_no_packages(folder: Path) -> None:
    """Accelerate's way: the package is only asked to run backward, the line is one of each batch."""
    own = program(CARRIED).replace(
        LINE,
        "model = Forecaster()\noptimizer, accelerator = model.configure(), Accelerator()\n"
        "for batch in torch.randn(4, 2, 3):\n    loss = model.training_step(batch, 0)\n    optimizer.zero_grad()\n"
        "    accelerator.backward(loss)\n    optimizer.step()",
    )
    told = observe(folder, own)
    assert told.slugs[0] == "carried-state"
    assert "below this line" not in spoken(told)
    first = patched(told)[0]["train.py"]
    assert first.endswith("    optimizer.step()\n    model.state = model.state.detach()\n")


# -- a feature that is switched on by configuration --------------------------------------------------------------------

FORMERS = {
    "transformers/__init__.py": """\
        from .layers import Model
        from .trainer import Trainer, TrainingArguments
    """,
    "transformers/layers.py": """\
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint


        class CheckpointedLayer(nn.Module):
            gradient_checkpointing = False

            def __call__(self, *args):
                if self.gradient_checkpointing and self.training:
                    return checkpoint(super().__call__, *args, **self.kwargs)
                return super().__call__(*args)


        class Layer(CheckpointedLayer):
            def __init__(self, width):
                super().__init__()
                self.base, self.low = nn.Linear(width, width), nn.Linear(width, width)
                self.base.requires_grad_(False)

            def forward(self, x):
                return torch.tanh(self.base(x) + self.low(x))


        class Model(nn.Module):
            def __init__(self, width=4):
                super().__init__()
                self.layers = nn.ModuleList(Layer(width) for _ in range(2))

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x.pow(2).mean()

            def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs=None):
                for layer in self.layers:
                    layer.gradient_checkpointing = True
                    layer.kwargs = gradient_checkpointing_kwargs or {"use_reentrant": True}
    """,
    "transformers/trainer.py": """\
        import torch
        from dataclasses import dataclass


        @dataclass
        class TrainingArguments:
            gradient_checkpointing: bool = False
            gradient_checkpointing_kwargs: dict = None
            lr: float = 0.1


        class Trainer:
            def __init__(self, model, args, data):
                self.model, self.args, self.data = model, args, data

            def train(self):
                if self.args.gradient_checkpointing:
                    self.model.gradient_checkpointing_enable(self.args.gradient_checkpointing_kwargs)
                optimizer = torch.optim.SGD([p for p in self.model.parameters() if p.requires_grad], lr=self.args.lr)
                for batch in self.data:
                    loss = self.model(batch)
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
    """,
}
CONFIGURED = (
    ON_PATH
    + """
import torch
from transformers import Model, Trainer, TrainingArguments

torch.manual_seed(0)
args = TrainingArguments(
    lr=0.01,
    gradient_checkpointing=True,
)
trainer = Trainer(Model(), args, torch.randn(3, 2, 4))
trainer.train()
"""
)
CALLED = (
    ON_PATH
    + """
import torch
from transformers import Model

torch.manual_seed(0)
model = Model()
model.gradient_checkpointing_enable()
for batch in torch.randn(3, 2, 4):
    loss = model(batch)
    loss.backward()
"""
)
SAID = 'gradient_checkpointing_kwargs={"use_reentrant": False}'


@pytest.mark.breadth(1)
@pytest.mark.parametrize(
    ("code", "line"),
    [(CONFIGURED, "gradient_checkpointing=True,"), (CALLED, "model.gradient_checkpointing_enable()")],
    ids=["by-arguments", "by-a-call"],
)
def test_reentrant_checkpoint_that_is_configured(tmp_path: Path, code: str, line: str) -> None:
    install(tmp_path, "transformers", "4.57.3", FORMERS)
    told = observe(tmp_path, code)
    assert told.slugs[0] == "checkpoint-no-grad-input"
    assert told.lines_of_user("cause") == [line]
    finding = told.found[0].finding
    assert any("layers.py" in s.file and "transformers 4.57.3" in s.label for s in finding.spans)
    assert finding.remedies[0].kind == "set_keyword" and SAID in finding.remedies[0].title
    assert any("enable_input_require_grads()" in r.title for r in finding.remedies)
    texts = told.patches()[0][1]
    assert SAID in texts["train.py"]
    (tmp_path / "patched.py").write_text(texts["train.py"])
    assert run_forked(tmp_path / "patched.py").status == 0


def test_configured_checkpoint_without_a_second_run(tmp_path: Path) -> None:
    """The warning and the frames of the first run alone: the configuration is named, and called likely."""
    from graphdoc.causes import find
    from graphdoc.diagnose import findings_for
    from graphdoc.evidence import Evidence

    install(tmp_path, "transformers", "4.57.3", FORMERS)
    observe(tmp_path, CONFIGURED)
    (file,) = (tmp_path / "first").glob("evidence-*.json")
    found, _ = findings_for(Evidence.read(str(file)))
    assert found[0].cause is find("checkpoint-no-grad-input")
    assert found[0].finding.confidence == "likely"
    places = [(s.file, s.line) for s in found[0].finding.spans if s.role == "cause"]
    assert places == [("train.py", 11)]
    assert found[0].finding.remedies[0].kind == "set_keyword"


def test_checkpoint_that_an_unknown_package_configures(tmp_path: Path) -> None:
    files = {path.replace("transformers", "otherformers"): text for path, text in FORMERS.items()}
    install(tmp_path, "otherformers", "1.0", files)
    told = observe(tmp_path, CONFIGURED.replace("from transformers", "from otherformers"))
    assert told.slugs[0] == "checkpoint-no-grad-input"
    assert told.lines_of_user("cause") == ["gradient_checkpointing=True,"]
    assert not told.patches()
    assert any("use_reentrant=False" in r.title for r in told.found[0].finding.remedies)
