"""Data parallel training and inference as a PyTorch user writes them: a process a device, DistributedDataParallel, gloo or NCCL.

The process that is measured is rank 0. It starts the others with its own interpreter, ``python -m`` this module, and tells each
through its standard input what to do: a line of JSON with the options, then a byte a step, so that none runs ahead of rank 0.
They end with it: their input ends, and the kernel is asked to end them too, for a rank may wait in a collective operation.
"""

import atexit
import ctypes
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from kernelscope.workloads import data, networks
from kernelscope.workloads.pytorch import program

STEP, LOAD = b"s", b"l"
_READY = b"r"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_END_LIMIT_S = 10


class Program(program.Program):
    """One network on `devices` devices of this machine, threads each on a processor; options["batch"] is shared by them.

    A loss is the mean over the whole batch, and inference brings the logits of the whole batch to rank 0's host.
    """

    def __init__(self, network, options):
        self.rank, self.devices = options.get("rank") or 0, options["devices"]
        if options.get("loader"):
            raise ValueError("pytorch: loader %s on several devices is not supported" % options["loader"])
        cuda = str(options.get("device") or "cpu").startswith("cuda")
        if cuda:
            torch.cuda.set_device(self.rank)
        share = options["batch"] // self.devices
        self.share = slice(self.rank * share, (self.rank + 1) * share)
        self.others = Others(options) if self.rank == 0 else None
        super(Program, self).__init__(network, options)
        self.module = self.model
        self._join("nccl" if cuda else "gloo", options)
        if self.mode == "train":
            self.model = DistributedDataParallel(self.module, device_ids=[self.rank] if cuda else None)

    def _join(self, backend, options):
        """Meet the other ranks; whatever can fail before has failed by now, and nobody waits for a rank that is not there."""
        if self.others is not None:
            self.others.wait_until_ready()
        else:
            os.write(sys.stdout.fileno(), _READY)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # else gloo looks up the machine's name, which may have no address
        place = self.others.folder if self.others is not None else options["meeting"]
        address = "file://" + os.path.join(place, "store")
        distributed.init_process_group(backend, init_method=address, rank=self.rank, world_size=self.devices)

    def processes(self):
        """Return the ids of the other ranks' processes."""
        return self.others.ids()

    def load(self, weights):
        """Load weights into rank 0's model and from there into the others'."""
        super(Program, self).load(weights)
        self.others.tell(LOAD)
        self.receive()

    def receive(self):
        """Take over parameters and buffers from rank 0."""
        for tensor in itertools.chain(self.module.parameters(), self.module.buffers()):
            distributed.broadcast(tensor.detach(), 0)

    def stream(self, host_batches):
        """Yield this rank's share of each host batch as tensors on its device; rank 0 lets the others begin their step."""
        for images, labels in host_batches:
            if self.others is not None:
                self.others.tell(STEP)
            yield self.placed(images[self.share]), torch.from_numpy(labels[self.share]).to(self.device)

    def train(self, batches):
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

    def infer(self, batches):
        """Bring the logits of each whole batch to rank 0's host."""
        self.model.eval()
        with torch.inference_mode():
            for images, _ in batches:
                logits = self.model(images)
                parts = [torch.empty_like(logits) for _ in range(self.devices)] if self.rank == 0 else None
                distributed.gather(logits, parts)
                if parts is not None:
                    torch.cat(parts).cpu().numpy()

    def outputs(self, images):
        """Return the logits as numpy [batch, classes] for canonical images, in inference mode: rank 0's alone."""
        self.module.eval()
        with torch.inference_mode():
            return self.module(self.placed(images)).cpu().numpy()

    def functions(self):
        """Return the functions worth profiling line by line."""
        return [self.train if self.mode == "train" else self.infer, self.module.forward]

    def close(self):
        """End the other ranks; for whoever runs several programs in one process."""
        distributed.destroy_process_group()
        self.others.close()


class Others(object):
    """The processes of ranks 1 and up, as rank 0 sees them."""

    def __init__(self, options):
        self.folder = tempfile.mkdtemp(prefix="kernelscope-ranks-")
        variables = {name: value for name, value in os.environ.items() if not name.endswith("_VERBOSE")}
        self.processes = []
        atexit.register(self.close)
        for rank in range(1, options["devices"]):
            process = subprocess.Popen(
                [sys.executable, "-m", "kernelscope.workloads.pytorch.parallel"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, env=variables, bufsize=0,
            )  # fmt: skip
            self.processes.append(process)
            told = dict(options.items(), rank=rank, meeting=self.folder, parent=os.getpid())
            process.stdin.write((json.dumps(told) + "\n").encode())

    def wait_until_ready(self):
        """Wait until every rank has built its model; raise RuntimeError where one failed."""
        for rank, process in enumerate(self.processes, 1):
            if process.stdout.read(1) != _READY:
                raise RuntimeError("rank %d ended with exit status %d; the log says why" % (rank, process.wait()))

    def tell(self, byte):
        """Tell all ranks what to do next."""
        for process in self.processes:
            process.stdin.write(byte)

    def ids(self):
        """Return the processes' ids."""
        return [process.pid for process in self.processes]

    def close(self):
        """End the ranks: each does once its input has ended."""
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []
        shutil.rmtree(self.folder, ignore_errors=True)


def _end_with(parent):
    """Ask the kernel for SIGKILL when rank 0 ends, however that happens; it may have ended before."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # the end of the input ends this process too, once it looks at it
    if os.getppid() != parent:
        sys.exit(1)


def _told(made, batches):
    """Yield the next batch for each step that rank 0 begins, until it ends."""
    for byte in iter(lambda: os.read(sys.stdin.fileno(), 1), b""):
        if byte == LOAD:
            made.receive()
        else:
            yield next(batches)


def main():
    """Be one of the other ranks."""
    line = b"".join(iter(lambda: os.read(sys.stdin.fileno(), 1), b"\n"))
    options = json.loads(line.decode())
    _end_with(options["parent"])
    network = networks.get(options["network"])
    made = Program(network, options)
    whole = data.batches(network, options["batch"], options["seed"], options["batches"], options.get("data"))
    run = made.train if options["mode"] == "train" else made.infer
    run(_told(made, made.stream(itertools.cycle(made.prepare(whole)))))


if __name__ == "__main__":
    main()
