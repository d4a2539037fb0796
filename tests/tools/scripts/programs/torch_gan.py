#!/usr/bin/env python
"""DCGAN-ish toy: generate 32x32 rings. Alternating D and G updates."""
import argparse

import torch
import torch.nn as nn


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--niter", default=300, type=int)
    parser.add_argument("--bs", default=24, type=int)
    parser.add_argument("--nz", default=32, type=int)
    parser.add_argument("--ngf", default=24, type=int)
    parser.add_argument("--ndf", default=24, type=int)
    parser.add_argument("--beta1", default=0.5, type=float)
    return parser.parse_args()


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def build_generator(nz, ngf):
    return nn.Sequential(
        nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0, bias=False),
        nn.BatchNorm2d(ngf * 4),
        nn.ReLU(True),
        # 4 x 4
        nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ngf * 2),
        nn.ReLU(True),
        # 8 x 8
        nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ngf),
        nn.ReLU(True),
        # 16 x 16
        nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def build_discriminator(ndf):
    return nn.Sequential(
        nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ndf * 2),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf * 2, ndf * 4, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ndf * 4),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(ndf * 4, 1, 4, 1, 0, bias=False),
        nn.Flatten(0),
    )


def rings(n, gen):
    lin = torch.linspace(-1, 1, 32)
    r2 = lin[None, :, None] ** 2 + lin[None, None, :] ** 2
    radius = 0.3 + 0.5 * torch.rand(n, 1, 1, generator=gen)
    img = torch.exp(-((r2.sqrt() - radius) ** 2) / 0.01)
    return (2 * img - 1).unsqueeze(1)


def main():
    opt = get_args()
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(4)
    real_pool = rings(2048, gen)

    netG = build_generator(opt.nz, opt.ngf).apply(weights_init)
    netD = build_discriminator(opt.ndf).apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()

    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(opt.beta1, 0.999))
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(opt.beta1, 0.999))
    fixed_noise = torch.randn(16, opt.nz, 1, 1)
    ones = torch.ones(opt.bs)
    zeros = torch.zeros(opt.bs)

    for i in range(opt.niter):
        # (1) update D: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        real = real_pool[torch.randint(0, real_pool.size(0), (opt.bs,))]
        errD_real = criterion(netD(real), ones)
        errD_real.backward()

        noise = torch.randn(opt.bs, opt.nz, 1, 1)
        fake = netG(noise)
        errD_fake = criterion(netD(fake.detach()), zeros)
        errD_fake.backward()
        optD.step()

        # (2) update G: maximize log(D(G(z)))
        netG.zero_grad()
        errG = criterion(netD(fake), ones)
        errG.backward()
        optG.step()

        if i % 50 == 0:
            lossD = errD_real.item() + errD_fake.item()
            print(f"[{i}/{opt.niter}] Loss_D: {lossD:.4f} Loss_G: {errG.item():.4f}")
        if i % 150 == 149:
            with torch.no_grad():
                sample = netG(fixed_noise)
            print("sample mean %.3f std %.3f" % (sample.mean(), sample.std()))


if __name__ == "__main__":
    main()
