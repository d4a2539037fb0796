"""Inference of convolutions with their biases and activations, channels last, in one batch that is large enough."""
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
torch.manual_seed(0)
layers = []
for channels_in, channels in ((64, 128), (128, 128), (128, 128), (128, 64)):
    layers += [nn.Conv2d(channels_in, channels, 3, padding=1), nn.ReLU(inplace=True)]
model = nn.Sequential(*layers).eval().to(memory_format=torch.channels_last)
images = torch.randn(16, 64, 48, 48).contiguous(memory_format=torch.channels_last)

with torch.inference_mode():
    for _ in range(STEPS):
        out = model(images)
