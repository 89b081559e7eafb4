import torch
from torch import nn


class Cell(nn.Module):
	def __init__(self, size):
		super().__init__()
		self.fc = nn.Linear(size, size)	# a tab before this comment
		self.state = torch.zeros(1, size)

	def forward(self, x):
		if x.dim() == 1:
		        x = x[None]  # a tab and eight blanks: consistent within its block
		self.state = torch.tanh(self.fc(x) + self.state)
		return self.state


def main():
	cell, opt = Cell(3), None
	for step in range(3):
		loss = cell(torch.ones(3)).sum()
		loss.backward( )
		print(step,	loss.item())
