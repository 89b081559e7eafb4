import torch

θ = torch.ones(3, requires_grad=True)
名前 = "模型 🤖 é"; loss = (θ * 2).sum(); print("🤖🤖", (loss + θ.sum()).item(), 名前)
π = {"ключ": θ}; σ = π["ключ"] + θ
