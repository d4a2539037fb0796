"""Data parallel training and inference as a PyTorch user writes them: a process a device, DistributedDataParallel, gloo or NCCL.

The process that is measured is rank 0, which starts the others: see ranks.
"""

import itertools
import os
from typing import Any, Iterable, Iterator, List

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from kernelscope.workloads.networks import Array, Network, Weights
from kernelscope.workloads.program import Batch, Functions, Options
from kernelscope.workloads.pytorch import program, ranks


class Program(program.Program):
    """One network on `devices` devices of this machine, threads each on a processor; options["batch"] is shared by them.

    A loss is the mean over the whole batch, and inference brings the logits of the whole batch to rank 0's host.
    """

    def __init__(self, network: Network, options: Options) -> None:
        self.rank, self.devices, self.recording = options.get("rank") or 0, options["devices"], False
        if options.get("loader"):
            raise ValueError("pytorch: loader %s on several devices is not supported" % options["loader"])
        cuda = str(options.get("device") or "cpu").startswith("cuda")
        if cuda:
            torch.cuda.set_device(self.rank)
        share = options["batch"] // self.devices
        self.share = slice(self.rank * share, (self.rank + 1) * share)
        # by which the ranks find each other: rank 0 listens at a free port of this machine alone
        self.store = distributed.TCPStore(
            "127.0.0.1", options.get("port") or 0, self.devices, self.rank == 0, wait_for_workers=False
        )
        self.others: Any = ranks.Others(options, self.store.port) if self.rank == 0 else None
        super(Program, self).__init__(network, options)
        torch.manual_seed((options.get("seed") or 0) + self.rank)  # of dropout, which would leave out the same of every share
        self.module = self.model
        self._join("nccl" if cuda else "gloo", options)
        if self.mode == "train":
            self.model = DistributedDataParallel(self.module, device_ids=[self.rank] if cuda else None)

    def _join(self, backend: Any, options: Options) -> None:
        """Meet the other ranks; whatever can fail before has failed by now, and nobody waits for a rank that is not there."""
        if self.others is not None:
            self.others.wait_until_ready()
        else:
            ranks.tell_ready(options)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else gloo looks up the machine's name, which may have no address
        distributed.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.devices)

    def processes(self) -> List[int]:
        """Return the ids of the other ranks' processes."""
        return self.others.ids()

    def record(self, folder: str) -> bool:
        """Let the other ranks record with torch.profiler, as this one is recorded; steps are marked in all of them."""
        self.recording = True
        self.others.record(folder)
        return True

    def recorded(self) -> List[str]:
        """Return the names of their traces, once they are written."""
        self.recording = False
        return self.others.recorded()

    def load(self, weights: Weights) -> None:
        """Load weights into rank 0's model and from there into the others'."""
        super(Program, self).load(weights)
        self.others.tell(ranks.LOAD)
        self.receive()

    def receive(self) -> None:
        """Take over parameters and buffers from rank 0."""
        for tensor in itertools.chain(self.module.parameters(), self.module.buffers()):
            distributed.broadcast(tensor.detach(), 0)

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield this rank's share of each host batch as tensors on its device; rank 0 lets the others begin their step."""
        for images, labels in host_batches:
            if self.others is not None:
                self.others.tell(ranks.STEP)
            with ranks.step(self.recording):
                yield self.placed(images[self.share]), torch.from_numpy(labels[self.share]).to(self.device)

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss, which rank 0 collects."""
        self.model.train()
        for images, labels in batches:
            self.optimizer.zero_grad()
            logits = self.model(images)
            loss = self.loss(logits, labels)
            loss.backward()
            self.optimizer.step()
            total = loss.detach()
            distributed.reduce(total, 0)
            self.losses.append(total.item() / self.devices)

    def infer(self, batches: Iterable[Any]) -> None:
        """Bring the logits of each whole batch to rank 0's host."""
        self.model.eval()
        with torch.inference_mode():
            for images, _ in batches:
                logits = self.model(images)
                parts = [torch.empty_like(logits) for _ in range(self.devices)] if self.rank == 0 else None
                distributed.gather(logits, parts)
                if parts is not None:
                    torch.cat(parts).cpu().numpy()

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode: rank 0's alone."""
        self.module.eval()
        with torch.inference_mode():
            return self.module(self.placed(images)).cpu().numpy()

    def functions(self) -> Functions:
        """Return the functions worth profiling line by line."""
        return [self.train if self.mode == "train" else self.infer, self.module.forward]

    def close(self) -> None:
        """End the other ranks; for whoever runs several programs in one process."""
        distributed.destroy_process_group()
        self.others.close()
