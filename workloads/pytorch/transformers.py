"""The blocks of GPT-2 and BERT, and ViT-S/16, as a PyTorch user writes them."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from kernelscope.workloads.pytorch.layers import Add


class Attention(nn.Module):
    """Scaled dot-product attention with several heads; queries, keys and values are concatenated in the last dimension."""

    def __init__(self, heads: int, causal: bool) -> None:
        super(Attention, self).__init__()
        self.heads = heads
        self.causal = causal

    def forward(self, qkv: Any) -> Any:
        """Return [batch, length, width] of qkv [batch, length, 3 * width]."""
        batch, length, width = qkv.shape
        query, key, value = qkv.view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return attended.transpose(1, 2).reshape(batch, length, width // 3)


class Tokens(nn.Module):
    """Turns an image's pixels into tokens, prepends a trained token, and adds trained positions."""

    def __init__(self, count: int, width: int) -> None:
        super(Tokens, self).__init__()
        self.class_token = nn.Parameter(torch.zeros(width))
        self.positions = nn.Parameter(torch.zeros(count + 1, width))

    def forward(self, images: Any) -> Any:
        """Return [batch, 1 + height * width, channels] of images [batch, channels, height, width]."""
        patches = images.flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(patches), 1, -1)
        return torch.cat([first, patches], dim=1) + self.positions


class Token(nn.Module):
    """Selects one token by its number."""

    def __init__(self, number: int) -> None:
        super(Token, self).__init__()
        self.number = number

    def forward(self, tokens: Any) -> Any:
        """Return [batch, width] of tokens [batch, length, width]."""
        return tokens[:, self.number]


class Block(nn.Module):
    """Attention and two dense layers, each with a shortcut and a normalisation before it, as in GPT-2 and ViT."""

    def __init__(self, width: int, heads: int, causal: bool, approximate: str, epsilon: float) -> None:
        super(Block, self).__init__()
        self.ln1 = nn.LayerNorm(width, eps=epsilon)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention = Attention(heads, causal)
        self.proj = nn.Linear(width, width)
        self.add1 = Add()
        self.ln2 = nn.LayerNorm(width, eps=epsilon)
        self.fc1 = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU(approximate=approximate)
        self.fc2 = nn.Linear(4 * width, width)
        self.add2 = Add()

    def forward(self, x: Any) -> Any:
        """Return [batch, length, width] of x of the same shape."""
        x = self.add1(self.proj(self.attention(self.qkv(self.ln1(x)))), x)
        return self.add2(self.fc2(self.gelu(self.fc1(self.ln2(x)))), x)


class BlockAfter(Block):
    """The same layers, with the normalisations after both parts, as in BERT."""

    def forward(self, x: Any) -> Any:
        """Return [batch, length, width] of x of the same shape."""
        x = self.ln1(self.add1(self.proj(self.attention(self.qkv(x))), x))
        return self.ln2(self.add2(self.fc2(self.gelu(self.fc1(x))), x))


class GPT2(nn.Sequential):
    """GPT-2 small's 12 causal blocks over vectors [batch, length, 768], a normalisation, and 10 classes of the last vector."""

    def __init__(self) -> None:
        super(GPT2, self).__init__()
        for number in range(1, 13):
            self.add_module("block%d" % number, Block(768, 12, causal=True, approximate="tanh", epsilon=1e-5))
        self.ln = nn.LayerNorm(768, eps=1e-5)
        self.last = Token(-1)
        self.head = nn.Linear(768, 10)


class BERTBase(nn.Sequential):
    """BERT-base's 12 blocks over vectors [batch, length, 768], and 2 classes from the first vector."""

    def __init__(self) -> None:
        super(BERTBase, self).__init__()
        for number in range(1, 13):
            self.add_module("block%d" % number, BlockAfter(768, 12, causal=False, approximate="none", epsilon=1e-12))
        self.first = Token(0)
        self.head = nn.Linear(768, 2)


class ViTS16(nn.Sequential):
    """ViT-S/16: 16x16 patches of images [batch, 3, 224, 224], 12 blocks, and 1,000 classes from the trained token."""

    def __init__(self) -> None:
        super(ViTS16, self).__init__()
        self.patch = nn.Conv2d(3, 384, kernel_size=16, stride=16)
        self.tokens = Tokens(14 * 14, 384)
        for number in range(1, 13):
            self.add_module("block%d" % number, Block(384, 6, causal=False, approximate="none", epsilon=1e-6))
        self.ln = nn.LayerNorm(384, eps=1e-6)
        self.first = Token(0)
        self.head = nn.Linear(384, 1000)
