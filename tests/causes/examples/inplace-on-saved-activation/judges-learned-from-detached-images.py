import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x):
        came = x
        out = self.a(x)
        out += came
        return out


class Model:
    def __init__(self):
        self.enc = nn.Linear(4, 8)
        self.gen = nn.Sequential(Block(), nn.Linear(8, 4))
        self.judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.enc_opt = torch.optim.Adam(self.enc.parameters(), 1e-3)
        self.gen_opt = torch.optim.Adam(self.gen.parameters(), 1e-3)
        self.judge_opt = torch.optim.Adam(self.judge.parameters(), 1e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), 1e-3)

    def forward(self):
        self.z = self.enc(self.real)
        out = self.gen(torch.cat((self.z, self.z + torch.randn_like(self.z)), 0))
        self.image, self.image2 = torch.split(out, self.z.size(0), dim=0)
        self.z2 = self.enc(self.image)
        self.copy = self.gen(self.z2)

    def judging(self, net, image):
        loss = F.softplus(net(image.detach())).mean() + F.softplus(-net(self.real)).mean()
        loss.backward()
        return loss

    def learn_judges(self):
        self.forward()
        self.judge_opt.zero_grad()
        self.judging(self.judge, self.image).item()
        self.judge_opt.step()
        self.critic_opt.zero_grad()
        self.judging(self.critic, self.image2).item()
        self.critic_opt.step()

    def painting(self):
        loss_gan = F.softplus(-self.judge(self.image)).mean()
        loss_copy = (self.copy - self.real).abs().mean()
        loss = loss_gan + loss_copy
        loss.backward(retain_graph=True)
        self.g_loss = loss.item()

    def painting_again(self):
        loss = F.softplus(-self.critic(self.image2)).mean()
        loss.backward()

    def learn_painter(self):
        self.enc_opt.zero_grad()
        self.gen_opt.zero_grad()
        self.painting()
        self.enc_opt.step()
        self.gen_opt.step()
        self.enc_opt.zero_grad()
        self.gen_opt.zero_grad()
        self.painting_again()
        self.enc_opt.step()
        self.gen_opt.step()


m = Model()
for i in range(4):
    m.real = torch.randn(5, 4)
    m.learn_judges()
    m.learn_painter()
    print(i)

# told at: out += came
# fails: modified by an inplace operation
