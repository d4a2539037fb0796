"""Data-parallel training and inference as a PyTorch user writes them.

It has one process per device and uses DistributedDataParallel over gloo or NCCL. The measured process is rank 0, which starts
the others: see ranks.
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
    """One network on `devices` devices of this machine, which divide options["batch"] among them.

    On a CPU, `threads` is the number per rank. A loss is the mean over the whole batch. Inference gathers the logits of the
    whole batch on rank 0's host. Raises ValueError for a loader, RuntimeError if another rank ends.
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
        # the ranks find each other through this store: rank 0 listens on a free port of the loopback interface
        self.store = distributed.TCPStore(
            "127.0.0.1", options.get("port") or 0, self.devices, self.rank == 0, wait_for_workers=False
        )
        self.others: Any = ranks.Others(options, self.store.port) if self.rank == 0 else None
        super(Program, self).__init__(network, options)
        torch.manual_seed((options.get("seed") or 0) + self.rank)  # else dropout drops the same units in every share
        self.module = self.model
        self._join("nccl" if cuda else "gloo", options)
        if self.mode == "train":
            self.model = DistributedDataParallel(self.module, device_ids=[self.rank] if cuda else None)

    def _join(self, backend: Any, options: Options) -> None:
        """Join the process group. All earlier failures have shown by now, so that no rank waits for one that is gone."""
        if self.others is not None:
            self.others.wait_until_ready()
        else:
            ranks.tell_ready(options)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else gloo resolves the machine's name, which may have no address
        distributed.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.devices)

    def processes(self) -> List[int]:
        """Return the process ids of the other ranks."""
        return self.others.ids()

    def record(self, folder: str) -> bool:
        """Make the other ranks record with torch.profiler, and all ranks mark their steps; return True."""
        self.recording = True
        self.others.record(folder)
        return True

    def recorded(self) -> List[str]:
        """Wait until the other ranks have written their traces; return the names of the files."""
        self.recording = False
        return self.others.recorded()

    def load(self, weights: Weights) -> None:
        """Load the weights into rank 0's model, and from there into the other ranks'."""
        super(Program, self).load(weights)
        self.others.tell(ranks.LOAD)
        self.receive()

    def receive(self) -> None:
        """Broadcast parameters and buffers from rank 0; every rank calls it."""
        for tensor in itertools.chain(self.module.parameters(), self.module.buffers()):
            distributed.broadcast(tensor.detach(), 0)

    def stream(self, host_batches: Iterable[Batch]) -> Iterator[Any]:
        """Yield this rank's share of each host batch as tensors on its device; rank 0 tells the others to begin their step."""
        for images, labels in host_batches:
            if self.others is not None:
                self.others.tell(ranks.STEP)
            with ranks.step(self.recording):
                yield self.placed(images[self.share]), torch.from_numpy(labels[self.share]).to(self.device)

    def train(self, batches: Iterable[Any]) -> None:
        """Train one step per batch and keep each step's loss; rank 0's is the mean over the whole batch."""
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
        """Compute the logits of each batch and gather them, whole, on rank 0's host."""
        self.model.eval()
        with torch.inference_mode():
            for images, _ in batches:
                logits = self.model(images)
                parts = [torch.empty_like(logits) for _ in range(self.devices)] if self.rank == 0 else None
                distributed.gather(logits, parts)
                if parts is not None:
                    torch.cat(parts).cpu().numpy()

    def outputs(self, images: Any) -> Array:
        """Return the logits as numpy [batch, classes] for images in canonical layout, in inference mode, on this rank alone."""
        self.module.eval()
        with torch.inference_mode():
            return self.module(self.placed(images)).cpu().numpy()

    def functions(self) -> Functions:
        """Return the functions worth profiling line by line."""
        return [self.train if self.mode == "train" else self.infer, self.module.forward]

    def close(self) -> None:
        """End the other ranks. Needed only if several programs run in one process."""
        distributed.destroy_process_group()
        self.others.close()
