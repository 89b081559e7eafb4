#!/usr/bin/env python
# vim: set fileencoding=latin-1 :
import torch

größe = 3  # Größe des Zustands
zustand = torch.zeros(größe); name = "café"; zustand = zustand + 1
if name == "été": zustand = zustand * 2
print(name, zustand.sum())
