"""A Transformer encoder as PyTorch has it: fused attention, a fused optimizer, tokens of one length."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
WIDTH, HEADS, LENGTH, BATCH = 512, 8, 128, 8
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


model = nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens, wanted = torch.randn(64, LENGTH, WIDTH), torch.randint(0, 64, (64, LENGTH))

for step in range(STEPS):
    first = step * BATCH % 64
    scores = model(tokens[first:first + BATCH])
    loss = F.cross_entropy(scores.flatten(0, 1), wanted[first:first + BATCH].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
