"""Writes the small files that a program reads: `python files.py KIND PATH`, in the folder where the program runs."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path

import numpy
from PIL import Image


def text(path: Path) -> None:
    """Sentences of few words."""
    made = random.Random(0)
    words = ["the", "graph", "of", "loss", "and", "step", "that", "finds", "one", "small", "gradient", "in", "each"]
    lines = (" ".join(made.choices(words, k=made.randint(4, 12))).capitalize() + "." for _ in range(600))
    path.write_text("\n".join(lines) + "\n")


def pictures(path: Path) -> None:
    """A folder of coloured pictures."""
    path.mkdir(parents=True, exist_ok=True)
    made = numpy.random.RandomState(0)
    for n in range(16):
        Image.fromarray(made.randint(0, 255, (96, 96, 3)).astype("uint8")).save(path / f"{n:03}.jpg")


def picture(path: Path) -> None:
    """One coloured picture."""
    x, y = numpy.meshgrid(numpy.linspace(0, 255, 384), numpy.linspace(0, 255, 256))
    Image.fromarray(numpy.stack([x, y, 255 - x], -1).astype("uint8")).save(path)


def masks(path: Path) -> None:
    """A folder of black and white pictures."""
    path.mkdir(parents=True, exist_ok=True)
    made = numpy.random.RandomState(1)
    for n in range(16):
        corner = made.randint(8, 40, 2)
        mask = numpy.zeros((96, 96), "uint8")
        mask[corner[0] : corner[0] + 40, corner[1] : corner[1] + 40] = 1
        Image.fromarray(mask).save(path / f"{n:03}.png")


def rays(path: Path) -> None:
    """Rays through a scene, one a row: where it begins, where it goes, its colour."""
    made = numpy.random.RandomState(0)
    towards = made.randn(4096, 3)
    towards /= numpy.linalg.norm(towards, axis=1, keepdims=True)
    table = numpy.concatenate([-4 * towards, towards, made.rand(4096, 3)], 1).astype("float32")
    path.write_bytes(pickle.dumps(table))


def series(path: Path) -> None:
    """Numbers of an hour each, as a CSV file: a date and seven columns."""
    made = numpy.random.RandomState(0)
    hours = numpy.arange(2000)
    columns = [numpy.sin(hours / (3 + n)) + 0.1 * made.randn(2000) for n in range(7)]
    dates = numpy.datetime64("2016-07-01T00:00") + hours.astype("timedelta64[h]")
    rows = []
    for date, *row in zip(dates, *columns, strict=True):
        rows.append(",".join([str(date).replace("T", " "), *(f"{c:.4f}" for c in row)]))
    path.write_text("\n".join(["date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT", *rows]) + "\n")


def numbers(path: Path) -> None:
    """The same numbers without a header or a date."""
    series(path)
    path.write_text("\n".join(line.split(",", 1)[1] for line in path.read_text().splitlines()[1:]) + "\n")


if __name__ == "__main__":
    kind, where = sys.argv[1], Path(sys.argv[2])
    where.parent.mkdir(parents=True, exist_ok=True)
    globals()[kind](where)
