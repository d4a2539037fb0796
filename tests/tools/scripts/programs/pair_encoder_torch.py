import torch
from torch import nn
import argparse
import logging

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
logger = logging.getLogger(__name__)

VOCAB, SEQ_LEN, D_MODEL, N_HEAD, D_FF, N_CLASS = 2000, 64, 128, 4, 256, 6


class EncoderClassifier(nn.Module):
    """Embedding + learned positions -> 2 encoder layers -> mean pool -> linear."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, D_MODEL)
        self.position = nn.Embedding(SEQ_LEN, D_MODEL)
        layer = nn.TransformerEncoderLayer(
            d_model=D_MODEL, nhead=N_HEAD, dim_feedforward=D_FF, dropout=0.1,
            activation="relu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.classifier = nn.Linear(D_MODEL, N_CLASS)
        self.register_buffer("pos_ids", torch.arange(SEQ_LEN))

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position(self.pos_ids[: tokens.size(1)])
        x = self.encoder(x)
        return self.classifier(x.mean(dim=1))


class TokenData(torch.utils.data.Dataset):
    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(N_CLASS, (size,), generator=g)
        self.x = torch.randint(N_CLASS, VOCAB, (size, SEQ_LEN), generator=g)
        hint = torch.rand(size, SEQ_LEN, generator=g) < 0.12
        self.x = torch.where(hint, self.y[:, None], self.x)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def run_eval(model, loader, loss_fn):
    model.eval()
    loss_sum, hits, n = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            out = model(x)
            loss_sum += loss_fn(out, y).item() * y.size(0)
            hits += (out.argmax(-1) == y).sum().item()
            n += y.size(0)
    model.train()
    return loss_sum / n, hits / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", default=400, type=int)
    parser.add_argument("--batch-size", default=16, type=int)
    args = parser.parse_args()

    torch.manual_seed(0)
    train_loader = torch.utils.data.DataLoader(
        TokenData(3200, seed=1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid_loader = torch.utils.data.DataLoader(TokenData(96, seed=2), batch_size=32)

    model = EncoderClassifier()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.004)

    done = 0
    while done < args.steps:
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            done += 1
            if done % 100 == 0:
                vl, va = run_eval(model, valid_loader, loss_fn)
                logger.info("step %d train %.4f valid %.4f acc %.3f", done, loss.item(), vl, va)
            if done == args.steps:
                break


if __name__ == "__main__":
    main()
