"""Writes the small files that a program reads: `python files.py KIND PATH`, in the folder where the program runs."""

from __future__ import annotations

import gzip
import pickle
import sys
from pathlib import Path

import numpy
from PIL import Image


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


def text(path: Path) -> None:
    """Words of a few letters, compressed."""
    made = numpy.random.RandomState(0)
    words = [bytes(made.randint(97, 123, made.randint(1, 8)).tolist()) for _ in range(200)]
    path.write_bytes(gzip.compress(b" ".join(words[n] for n in made.randint(0, 200, 25_000_000 // 250))))


def binarized(path: Path) -> None:
    """Pictures of zeros and ones, a part to train on and one to test."""
    made = numpy.random.RandomState(0)
    parts = {f"{part}_data": (made.rand(256, 784) < 0.2).astype("float32") for part in ("train", "valid", "test")}
    numpy.savez(path, **parts)


if __name__ == "__main__":
    kind, where = sys.argv[1], Path(sys.argv[2])
    where.parent.mkdir(parents=True, exist_ok=True)
    globals()[kind](where)
