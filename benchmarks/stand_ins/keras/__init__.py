"""Keras, as far as its data sets go."""
