"""Training in the second process that steps: rank 0 of two that are spawned, or where a spawned worker calls a model first."""

import os
import sys
import time

import torch

made_by_workers_too = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.1)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, index):
        return torch.nn.Linear(4, 4)(torch.zeros(4)).tolist()


def train(batches):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        model(torch.tensor(batch)).sum().backward()
        optimizer.step()


def rank(number, group):
    if group:
        torch.distributed.init_process_group("gloo", init_method=group, rank=number, world_size=2)
    if number == 0:
        print("trains", os.getpid(), flush=True)
        time.sleep(2)
    train([[[0.0] * 4] * 4] * 60)


if __name__ == "__main__":
    if sys.argv[1] == "loads":
        print("trains", os.getpid(), flush=True)
        train(torch.utils.data.DataLoader(Data(), 4, num_workers=1, multiprocessing_context="spawn", collate_fn=list))
    else:
        torch.multiprocessing.spawn(rank, args=(sys.argv[2:] or [None]), nprocs=2)
