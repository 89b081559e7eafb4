"""`from keras.datasets.mnist import load_data`."""

from . import Pictures

load_data = Pictures(28, 28).load_data
