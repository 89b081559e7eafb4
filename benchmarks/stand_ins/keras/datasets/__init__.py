"""The data sets of Keras that the programs ask for, of noise."""

from __future__ import annotations

import os
from typing import Any

import numpy

IMAGES = int(os.environ.get("STAND_IN_IMAGES", "256"))


class Pictures:
    """A data set of Keras: `load_data()`."""

    def __init__(self, *shape: int, column: bool = False) -> None:
        self.shape, self.column = shape, column

    def load_data(self) -> Any:
        made = numpy.random.RandomState(0)
        parts = []
        for _ in range(2):
            labels = made.randint(0, 10, IMAGES).astype("uint8")
            data = made.randint(0, 128, (IMAGES, *self.shape)).astype("uint8")
            for picture, label in zip(data, labels, strict=True):
                picture[2 * label] = 255
            parts.append((data, labels[:, None] if self.column else labels))
        return tuple(parts)


cifar10 = Pictures(32, 32, 3, column=True)
