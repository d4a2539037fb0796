import argparse
import logging
import math

import torch
from torch import nn
from torch.nn import functional as F

log = logging.getLogger("encoder")


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask):
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(B, T, self.heads, -1).transpose(1, 2)
        k = k.view(B, T, self.heads, -1).transpose(1, 2)
        v = v.view(B, T, self.heads, -1).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out = out.transpose(1, 2).reshape(B, T, D)
        return self.proj(out)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        h = F.gelu(self.fc1(x))
        return self.fc2(h)


class Block(nn.Module):
    """Pre-norm transformer block."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SelfAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.ff = FeedForward(dim, hidden)

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask)
        x = x + self.ff(self.norm2(x))
        return x


class Classifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        self.pos = nn.Parameter(torch.zeros(1, cfg.seq_len, cfg.dim))
        self.blocks = nn.ModuleList(
            [Block(cfg.dim, cfg.heads, 4 * cfg.dim) for _ in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, ids):
        keep = ids.ne(0)
        mask = keep[:, None, None, :]
        x = self.tok(ids) + self.pos[:, :ids.size(1)]
        for blk in self.blocks:
            x = blk(x, mask)
        x = self.norm(x)
        w = keep.unsqueeze(-1).float()
        pooled = (x * w).sum(1) / w.sum(1)
        return self.head(pooled)


def make_data(n, cfg, seed):
    """Label = class whose marker tokens are the most frequent."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(cfg.classes + 1, cfg.vocab, (n, cfg.seq_len), generator=g)
    y = torch.randint(0, cfg.classes, (n,), generator=g)
    marked = torch.rand(n, cfg.seq_len, generator=g) < 0.1
    ids = torch.where(marked, (y + 1)[:, None].expand_as(ids), ids)
    lengths = torch.randint(cfg.seq_len // 2, cfg.seq_len + 1, (n,), generator=g)
    ids[torch.arange(cfg.seq_len)[None, :] >= lengths[:, None]] = 0
    return ids, y


def lr_at(step, cfg):
    if step < cfg.warmup:
        return (step + 1) / cfg.warmup
    t = (step - cfg.warmup) / max(1, cfg.steps - cfg.warmup)
    return 0.5 * (1 + math.cos(math.pi * t))


@torch.no_grad()
def accuracy(model, ids, y):
    model.eval()
    acc = (model(ids).argmax(-1) == y).float().mean().item()
    model.train()
    return acc


def main(cfg):
    torch.manual_seed(cfg.seed)
    train_x, train_y = make_data(4000, cfg, seed=10)
    test_x, test_y = make_data(64, cfg, seed=11)
    model = Classifier(cfg)
    log.info("%.2fM parameters", sum(p.numel() for p in model.parameters()) / 1e6)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_at(s, cfg))
    for step in range(1, cfg.steps + 1):
        idx = torch.randint(0, len(train_x), (cfg.batch,))
        xb, yb = train_x[idx], train_y[idx]
        logits = model(xb)
        loss = F.cross_entropy(logits, yb)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if step % 50 == 0:
            log.info("step %d loss %.4f lr %.2e", step, loss.item(), sched.get_last_lr()[0])
        if step % 100 == 0:
            log.info("step %d test acc %.3f", step, accuracy(model, test_x, test_y))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    for name, default in dict(vocab=8000, seq_len=96, dim=96, heads=6, layers=3, classes=8,
                              batch=10, steps=400, warmup=40, seed=0).items():
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--lr", type=float, default=1e-3)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    main(p.parse_args())
