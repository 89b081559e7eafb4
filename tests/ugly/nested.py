import torch


def outer(scale):
    count = 0
    memory = torch.zeros(2)

    def middle(x):
        nonlocal count, memory
        count += 1

        class Local:
            weight = torch.ones(2)

            def forward(self, y):
                def inner(z):
                    return z + self.weight + memory * scale
                return inner(y)

        memory = Local().forward(x)
        return memory

    return middle


print(outer(2)(torch.ones(2)))
