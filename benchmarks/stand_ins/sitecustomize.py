"""What public programs need without network or GPU: data sets of noise, a seed, `cuda()` that stays, an early end.

Python imports it by itself where this folder is on PYTHONPATH. It waits until the program imports a module named in
LATER and changes that module then; nothing is imported that the program does not import.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import random
import sys
from typing import Any

STEPS = int(os.environ.get("STAND_IN_STEPS", "0"))
"""After how many optimizer steps the program ends, as on `sys.exit()`; 0 lets it come to its own end."""

IMAGES = int(os.environ.get("STAND_IN_IMAGES", "256"))
"""How many pictures a data set has."""


def seed(torch: Any) -> None:
    """The program draws the same numbers each time, what it sends to a GPU stays where it is, and it ends in time."""
    random.seed(0)
    torch.manual_seed(0)
    if STEPS:
        taken = iter(range(1, STEPS))

        def stepped(*_: Any) -> None:
            if next(taken, None) is None:
                sys.exit()

        importlib.import_module("torch.optim.optimizer").register_optimizer_step_post_hook(stepped)
    if not torch.cuda.is_available():
        for owner in (torch.Tensor, torch.nn.Module):
            owner.cuda = lambda self, *_, **__: self


def seed_numpy(numpy: Any) -> None:
    numpy.random.seed(0)


def pictures(shape: tuple[int, ...], classes: int) -> type:
    """A data set of noise in which each class has a bright row of its own, with the attributes of torchvision's."""
    import numpy
    import torch
    from PIL import Image
    from torchvision.datasets import VisionDataset

    class Pictures(VisionDataset):
        """Pictures of noise."""

        def __init__(
            self, root: Any = "", train: Any = True, transform: Any = None, target_transform: Any = None, **more: Any
        ) -> None:
            super().__init__(str(root), transform=transform, target_transform=target_transform)
            self.train = train if isinstance(train, bool) else train != "test"
            split = more.get("split", "train" if self.train else "test")
            made = numpy.random.RandomState(len(str(split)))
            labels = made.randint(0, classes, IMAGES)
            data = made.randint(0, 128, (IMAGES, *shape)).astype("uint8")
            for picture, label in zip(data, labels, strict=True):
                picture[2 * (label % 10)] = 255
            self.classes = [str(n) for n in range(classes)]
            grey = len(shape) == 2
            self.data = torch.from_numpy(data) if grey else data
            self.targets = torch.from_numpy(labels) if grey else labels.tolist()
            self.labels = labels

        def __len__(self) -> int:
            return IMAGES

        def __getitem__(self, index: int) -> Any:
            picture = Image.fromarray(numpy.asarray(self.data[index]))
            label = int(self.targets[index])
            if self.transform is not None:
                picture = self.transform(picture)
            if self.target_transform is not None:
                label = self.target_transform(label)
            return picture, label

    Pictures.train_data = Pictures.test_data = property(lambda self: self.data)  # type: ignore[attr-defined]
    Pictures.train_labels = Pictures.test_labels = property(lambda self: self.targets)  # type: ignore[attr-defined]
    return Pictures


def no_downloads(datasets: Any) -> None:
    """The data sets of torchvision that the programs ask for."""
    grey, coloured = pictures((28, 28), 10), pictures((32, 32, 3), 10)
    for name in ("MNIST", "FashionMNIST", "KMNIST"):
        setattr(datasets, name, type(name, (grey,), {}))
    for name in ("CIFAR10", "SVHN"):
        setattr(datasets, name, type(name, (coloured,), {}))
    datasets.CIFAR100 = type("CIFAR100", (pictures((32, 32, 3), 100),), {})
    datasets.STL10 = type("STL10", (pictures((96, 96, 3), 10),), {})


LATER = {"torch": seed, "numpy": seed_numpy, "torchvision.datasets": no_downloads}


class Later(importlib.abc.MetaPathFinder):
    """Finds a module of LATER where Python does, and changes it once it has been executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in LATER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        change, execute = LATER.pop(name), spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, Later())
