# Transformer encoder on a toy "which half has more 1s" task -- flax.nnx + optax
import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx


@dataclasses.dataclass
class Config:
    vocab: int = 1000
    max_len: int = 48
    d_model: int = 96
    n_heads: int = 4
    d_ff: int = 256
    n_layers: int = 2
    n_classes: int = 5
    batch_size: int = 32
    lr: float = 1e-3
    steps: int = 400


class EncoderBlock(nnx.Module):
    def __init__(self, cfg: Config, *, rngs: nnx.Rngs):
        self.ln1 = nnx.LayerNorm(cfg.d_model, rngs=rngs)
        self.attn = nnx.MultiHeadAttention(
            num_heads=cfg.n_heads, in_features=cfg.d_model, decode=False, rngs=rngs)
        self.ln2 = nnx.LayerNorm(cfg.d_model, rngs=rngs)
        self.up = nnx.Linear(cfg.d_model, cfg.d_ff, rngs=rngs)
        self.down = nnx.Linear(cfg.d_ff, cfg.d_model, rngs=rngs)

    def __call__(self, x):
        x = x + self.attn(self.ln1(x))
        h = nnx.gelu(self.up(self.ln2(x)))
        return x + self.down(h)


class Encoder(nnx.Module):
    def __init__(self, cfg: Config, *, rngs: nnx.Rngs):
        self.tok = nnx.Embed(cfg.vocab, cfg.d_model, rngs=rngs)
        self.pos = nnx.Embed(cfg.max_len, cfg.d_model, rngs=rngs)
        self.blocks = nnx.List([EncoderBlock(cfg, rngs=rngs) for _ in range(cfg.n_layers)])
        self.norm = nnx.LayerNorm(cfg.d_model, rngs=rngs)
        self.head = nnx.Linear(cfg.d_model, cfg.n_classes, rngs=rngs)

    def __call__(self, ids):
        x = self.tok(ids) + self.pos(jnp.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x).mean(axis=1)
        return self.head(x)


def loss_fn(model, ids, labels):
    logits = model(ids)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, logits


@nnx.jit
def train_step(model, optimizer, metrics, ids, labels):
    grad_fn = nnx.value_and_grad(loss_fn, has_aux=True)
    (loss, logits), grads = grad_fn(model, ids, labels)
    metrics.update(loss=loss, logits=logits, labels=labels)
    optimizer.update(model, grads)
    return loss


@nnx.jit
def eval_step(model, ids, labels):
    logits = model(ids)
    return (logits.argmax(-1) == labels).mean()


def synth(cfg, n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, cfg.n_classes, n)
    ids = rng.integers(50, cfg.vocab, (n, cfg.max_len))
    mark = rng.random(ids.shape) < 0.2
    ids[mark] = (labels[:, None] * 10 + rng.integers(0, 10, ids.shape))[mark]
    return ids.astype(np.int32), labels.astype(np.int32)


def main():
    cfg = Config()
    if len(sys.argv) > 1:
        cfg.steps = int(sys.argv[1])
    rng = np.random.default_rng(0)
    ids, labels = synth(cfg, 4000, 1)
    test_ids, test_labels = synth(cfg, 64, 2)

    model = Encoder(cfg, rngs=nnx.Rngs(0))
    warmup = min(40, cfg.steps // 4)
    schedule = optax.warmup_cosine_decay_schedule(0.0, cfg.lr, warmup, cfg.steps)
    optimizer = nnx.Optimizer(model, optax.adamw(schedule, weight_decay=1e-2), wrt=nnx.Param)
    metrics = nnx.MultiMetric(
        loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())

    for step in range(1, cfg.steps + 1):
        idx = rng.integers(0, len(ids), cfg.batch_size)
        batch_ids, batch_labels = jnp.asarray(ids[idx]), jnp.asarray(labels[idx])
        loss = train_step(model, optimizer, metrics, batch_ids, batch_labels)

        if step % 50 == 0:
            m = metrics.compute()
            print(f"[{step}] loss={m['loss']:.4f} acc={m['accuracy']:.3f}")
            metrics.reset()
        if step % 100 == 0:
            acc = eval_step(model, test_ids, test_labels)
            print(f"[{step}] test acc={float(acc):.3f}")


if __name__ == "__main__":
    main()
