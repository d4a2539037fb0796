# GRU language model, after the word_language_model example.
import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description='GRU word language model on a synthetic corpus')
parser.add_argument('--emsize', type=int, default=160, help='size of word embeddings')
parser.add_argument('--nhid', type=int, default=160, help='number of hidden units per layer')
parser.add_argument('--nlayers', type=int, default=1, help='number of layers')
parser.add_argument('--vocab', type=int, default=6000)
parser.add_argument('--lr', type=float, default=2.0, help='initial learning rate')
parser.add_argument('--clip', type=float, default=0.25, help='gradient clipping')
parser.add_argument('--steps', type=int, default=400, help='number of updates')
parser.add_argument('--batch_size', type=int, default=10)
parser.add_argument('--bptt', type=int, default=20, help='sequence length')
parser.add_argument('--dropout', type=float, default=0.2)
parser.add_argument('--seed', type=int, default=1111)
parser.add_argument('--log-interval', type=int, default=50)
args = parser.parse_args()

torch.manual_seed(args.seed)

###############################################################################
# Make the data: a noisy order-1 chain with a long-tailed unigram distribution
###############################################################################


def make_stream(n, seed):
    g = torch.Generator().manual_seed(seed)
    ranks = torch.arange(1, args.vocab + 1, dtype=torch.float)
    unigram = (1.0 / ranks) / (1.0 / ranks).sum()
    tokens = torch.multinomial(unigram, n, replacement=True, generator=g)
    follow = torch.rand(n, generator=g) < 0.5
    for i in range(1, n):
        if follow[i]:
            tokens[i] = (tokens[i - 1] * 7 + 3) % args.vocab
    return tokens


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


train_data = batchify(make_stream(40000, 0), args.batch_size)
val_data = batchify(make_stream(2000, 1), args.batch_size)


class RNNModel(nn.Module):
    """Container module with an encoder, a recurrent module, and a decoder."""

    def __init__(self, ntoken, ninp, nhid, nlayers, dropout=0.5):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.GRU(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        decoded = self.decoder(output)
        return decoded.view(-1, decoded.size(-1)), hidden

    def init_hidden(self, bsz):
        return torch.zeros(self.nlayers, bsz, self.nhid)


model = RNNModel(args.vocab, args.emsize, args.nhid, args.nlayers, args.dropout)
criterion = nn.CrossEntropyLoss()


def repackage_hidden(h):
    """Detach the hidden state from its history."""
    return h.detach()


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].reshape(-1)


def evaluate(data_source, max_batches=5):
    model.eval()
    total, count = 0., 0
    hidden = model.init_hidden(args.batch_size)
    with torch.no_grad():
        for i in range(0, data_source.size(0) - 1, args.bptt):
            data, targets = get_batch(data_source, i)
            output, hidden = model(data, hidden)
            total += len(data) * criterion(output, targets).item()
            count += len(data)
            if i // args.bptt + 1 >= max_batches:
                break
    model.train()
    return total / count


def train(nsteps, lr):
    model.train()
    total_loss = 0.
    hidden = model.init_hidden(args.batch_size)
    pos = 0
    for step in range(1, nsteps + 1):
        if pos >= train_data.size(0) - 1 - args.bptt:
            pos = 0
            hidden = model.init_hidden(args.batch_size)
        data, targets = get_batch(train_data, pos)
        pos += args.bptt

        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()

        # `clip_grad_norm` helps prevent the exploding gradient problem in RNNs.
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)

        total_loss += loss.item()
        if step % args.log_interval == 0:
            cur = total_loss / args.log_interval
            print('| step {:5d} | lr {:5.2f} | loss {:5.2f} | ppl {:8.2f}'.format(
                step, lr, cur, math.exp(cur)))
            total_loss = 0.
        if step % 100 == 0:
            print('| valid loss {:5.2f}'.format(evaluate(val_data)))


train(args.steps, args.lr)
