# -*- coding: utf-8 -*-
"""Saved on Windows."""
import torch

text = """lines
    inside a string
"""
w = torch.ones(3, requires_grad=True)
h = torch.zeros(3)
for i in range(2):
    h = (h + w
         ) * 2  # state
    loss = h.sum()
    if i: loss.backward(retain_graph=True); print(i)
