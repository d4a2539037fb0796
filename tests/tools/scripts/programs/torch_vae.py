'''
Convolutional VAE. Synthetic "blobs" images, 1x32x32.
Set ACCUM > 1 for gradient accumulation.
'''
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
BATCH = 48
LATENT = 16
LR = 1e-3
BETA = 0.5
ACCUM = 1          # micro-batches per optimizer step


def make_blobs(n, seed=7):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(0, 1, 32)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    out = torch.zeros(n, 32, 32)
    for _ in range(3):
        cx, cy = torch.rand(n, 1, 1, generator=g), torch.rand(n, 1, 1, generator=g)
        r = 0.03 + 0.1 * torch.rand(n, 1, 1, generator=g)
        out += torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * r ** 2))
    return out.clamp_(0, 1).unsqueeze(1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 32, 4, stride=2, padding=1)     # 16x16
        self.c2 = nn.Conv2d(32, 64, 4, stride=2, padding=1)    # 8x8
        self.fc = nn.Linear(64 * 8 * 8, 128)
        self.mu = nn.Linear(128, LATENT)
        self.logvar = nn.Linear(128, LATENT)

    def forward(self, x):
        h = F.relu(self.c1(x))
        h = F.relu(self.c2(h))
        h = F.relu(self.fc(h.flatten(1)))
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(LATENT, 128)
        self.fc2 = nn.Linear(128, 64 * 8 * 8)
        self.t1 = nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1)
        self.t2 = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)
        self.out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, z):
        h = F.relu(self.fc(z))
        h = F.relu(self.fc2(h)).view(-1, 64, 8, 8)
        h = F.relu(self.t1(h))
        h = F.relu(self.t2(h))
        return self.out(h)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, x):
        mu, logvar = self.encoder(x)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        return self.decoder(z), mu, logvar


def elbo_loss(recon, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (rec + BETA * kl) / x.size(0)


def endless(loader):
    while True:
        for (x,) in loader:
            yield x


torch.manual_seed(0)
vae = VAE()
opt = Adam(vae.parameters(), lr=LR)
data = TensorDataset(make_blobs(3072))
batches = endless(DataLoader(data, batch_size=BATCH, shuffle=True, drop_last=True))
held_out = make_blobs(48, seed=8)

running = 0.0
for it in range(1, STEPS + 1):
    opt.zero_grad()
    for _ in range(ACCUM):
        x = next(batches)
        recon, mu, logvar = vae(x)
        loss = elbo_loss(recon, x, mu, logvar) / ACCUM
        loss.backward()
        running += loss.item()
    opt.step()

    if it % 50 == 0:
        print("iter %d  -elbo %.2f" % (it, running / 50))
        running = 0.0
    if it % 200 == 0:
        vae.eval()
        with torch.no_grad():
            r, m, lv = vae(held_out)
            print("iter %d  held-out %.2f" % (it, elbo_loss(r, held_out, m, lv).item()))
        vae.train()
