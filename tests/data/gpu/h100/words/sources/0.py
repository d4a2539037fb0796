"""Train a small decoder on tokens, as first versions of scripts do: float32, attention written out, Adam, losses printed."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and two layers of a perceptron."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).bool(), persistent=False)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))


class Decoder(nn.Module):
    """Tokens in, logits out."""

    def __init__(self, vocabulary, width, layers, heads, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, length) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    corpus = torch.randint(0, 8000, (1_000_000,))
    model = Decoder(8000, arguments.width, arguments.layers, arguments.width // 64, arguments.length).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    for step in range(arguments.steps):
        starts = torch.randint(0, len(corpus) - arguments.length - 1, (arguments.batch,)).tolist()
        batch = torch.stack([corpus[start : start + arguments.length + 1] for start in starts]).to(device)
        logits = model(batch[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if loss.item() > 1e4:
            raise RuntimeError("diverged")
        if step % 10 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
