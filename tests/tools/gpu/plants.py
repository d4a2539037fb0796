"""Plant known causes in PyTorch programs on a GPU, and record each pair with PyTorch's profiler, in one process and few minutes.

    python tests/tools/gpu/plants.py FOLDER [--only NAME]...      # with an interpreter that has torch; kernelscope is not needed
    python tests/tools/pairs/run.py FOLDER                        # anywhere: explains the pairs, and judges what is said
    nsys profile -c cudaProfilerApi ... python plants.py FOLDER --only NAME --side b    # one side's steps, for another profiler

FOLDER gets `truth.csv`, as tests/tools/pairs/judging.py reads it, and for each plant a folder with `a.pt.trace.json.gz` and
`b.pt.trace.json.gz`. The truth's steps are those of the recorded loop by the host's clock; `plain_ms_a` and `plain_ms_b` are the
steps without a profiler, of which medians of several windows are taken.
"""

import argparse
import csv
import gc
import os
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
WINDOWS, WINDOW_STEPS = 3, 10
RECORDED = 5
COLUMNS = ("pair", "step_ms_a", "step_ms_b", "cause_ms", "cause_keywords", "control", "plain_ms_a", "plain_ms_b", "spread_ms")

# name -> options of A, what B changes, words of which each must be said, and whether nothing may be said
PLANTS = {
    "precision": ({"model": "gpt"}, {"precision": "float32"}, "precision"),
    "tf32-off": ({"model": "gpt", "precision": "float32", "batch": 8}, {"tf32": False}, "precision"),
    "channels-last-copies": ({"model": "resnet"}, {"layout": "mixed"}, "layout"),
    "item-each-layer": ({"model": "gpt", "batch": 10}, {"item": True}, "synchronisation"),
    "waits-each-layer": ({"model": "gpt", "batch": 10}, {"wait": True}, "synchronisation"),
    "pageable-copies": ({"model": "resnet", "host_data": "pinned"}, {"host_data": "pageable"}, "pageable"),
    "optimizer-loop": ({"model": "gpt", "batch": 8}, {"optimizer": "loop"}, "optimizer"),
    "graph-to-eager": ({"model": "mlp", "graph": True}, {"graph": False}, "graph"),
    "unfused-gelu": ({"model": "gpt"}, {"gelu": "chain"}, "elementwise"),
    "math-attention": ({"model": "gpt"}, {"attention": "math"}, "attention"),
    "recomputation": ({"model": "gpt"}, {"recompute": True}, "recomputation"),
    "slow-loader": ({"model": "resnet"}, {"loader_ms": 15}, "input"),
    "other-process": ({"model": "gpt"}, {"neighbour": True}, "another process"),
    "larger-batch": ({"model": "gpt"}, {"batch": 36}, "batch"),
    "copies-of-activations": ({"model": "gpt"}, {"clones": 16}, "copies"),
    "control-gpt": ({"model": "gpt"}, {}, None),
    "control-resnet": ({"model": "resnet"}, {}, None),
    "control-mlp": ({"model": "mlp"}, {}, None),
    "control-names": ({"model": "gpt"}, {"renamed": True}, None),
}
DEFAULTS = {
    "model": "gpt", "precision": "bfloat16", "tf32": True, "layout": "channels_last", "item": False, "wait": False,
    "host_data": None, "optimizer": "fused", "graph": False, "gelu": "fused", "attention": "flash", "recompute": False,
    "loader_ms": 0, "neighbour": False, "batch": 24, "clones": 0, "renamed": False,
}  # fmt: skip


class Block(nn.Module):
    """One layer of a decoder."""

    def __init__(self, width, heads, options):
        super().__init__()
        self.heads, self.options = heads, options
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        """Return the attention's output of [batch, length, width]."""
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        fast = SDPBackend.FLASH_ATTENTION if q.dtype == torch.bfloat16 and CUDA else SDPBackend.EFFICIENT_ATTENTION
        backend = SDPBackend.MATH if self.options["attention"] == "math" or not CUDA else fast
        with sdpa_kernel(backend):
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))

    def activate(self, x):
        """Return GELU's tanh form, by one kernel or written out."""
        if self.options["gelu"] == "fused":
            return functional.gelu(x, approximate="tanh")
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def forward(self, x):
        """Return the layer's output."""
        x = x + self.attend(self.norm1(x))
        for _ in range(self.options["clones"]):
            x = x.clone()
        x = x + self.down(self.activate(self.up(self.norm2(x))))
        if self.options["wait"]:
            wait()
        if self.options["item"]:
            self.seen = x.detach().float().abs().mean().item()
        return x


class RenamedBlock(Block):
    """The same under another name."""


class Gpt(nn.Module):
    """A small decoder for tokens."""

    def __init__(self, options, width=1024, layers=6, heads=16, vocabulary=8192, length=1024):
        super().__init__()
        kind = RenamedBlock if options["renamed"] else Block
        self.options = options
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(kind(width, heads, options) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        """Return logits of [batch, length] tokens."""
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.options["recompute"] else block(x)
        return self.head(self.norm(x))


class Mlp(nn.Module):
    """Many small layers: launching takes longer than computing."""

    def __init__(self, width=256, layers=40):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        """Return the output of [batch, width]."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Mixed(nn.Module):
    """A network whose data change their layout before and behind each of its stages."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        """Return logits; every stage but the first gets channels-first data for its channels-last weights."""
        n = self.network
        x = n.maxpool(n.relu(n.bn1(n.conv1(x))))
        for stage in (n.layer1, n.layer2, n.layer3, n.layer4):
            for block in stage:
                x = block(x.contiguous().contiguous(memory_format=torch.channels_last))
        return n.fc(torch.flatten(n.avgpool(x), 1))


class Program:
    """One program with its data; `step` does one step of training."""

    def __init__(self, options):
        torch.manual_seed(0)
        self.options = options
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options["tf32"]
        torch.backends.cudnn.benchmark = False  # trying algorithms out would take most of the time here
        self.model, self.batches = getattr(self, options["model"])()
        how = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[options["optimizer"]]
        capturable = {"capturable": True} if options["graph"] and CUDA else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **how, **capturable)
        self.number = 0
        self.graph = None
        if options["graph"] and CUDA:
            self.capture()

    def gpt(self):
        """Return the model and its batches."""
        shape = (self.options["batch"], 1024 if CUDA else 64)
        ids = [torch.randint(0, 8192, shape, device=DEVICE) for _ in range(2)]
        return Gpt(self.options, **({} if CUDA else {"layers": 2, "width": 64, "heads": 4})).to(DEVICE), [(i, i) for i in ids]

    def resnet(self):
        """Return the model and its batches."""
        import torchvision

        network = torchvision.models.resnet50(num_classes=1000).to(DEVICE).to(memory_format=torch.channels_last)
        model = Mixed(network) if self.options["layout"] == "mixed" else network
        size, count = (224, 128) if CUDA else (32, 4)
        images = torch.randn(count, 3, size, size)
        labels = torch.randint(0, 1000, (count,), device=DEVICE)
        if self.options["host_data"] == "pinned" and CUDA:
            images = images.pin_memory()
        elif self.options["host_data"] is None:
            images = images.to(DEVICE).to(memory_format=torch.channels_last)
        return model, [(images, labels)] * 2

    def mlp(self):
        """Return the model and its batches."""
        data = torch.randn(64, 256, device=DEVICE)
        return Mlp().to(DEVICE), [(data, data)] * 2

    def loss(self, inputs, targets):
        """Return the loss of a batch."""
        enabled = self.options["precision"] == "bfloat16"
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=enabled):
            out = self.model(inputs)
            if self.options["model"] == "mlp":
                return functional.mse_loss(out.float(), targets)
            return functional.cross_entropy(out.float().flatten(0, -2), targets.flatten())

    def train(self, inputs, targets):
        """Do forward, backward and optimizer."""
        self.optimizer.zero_grad(set_to_none=not self.options["graph"])
        loss = self.loss(inputs, targets)
        loss.backward()
        self.optimizer.step()
        return loss

    def capture(self):
        """Make a CUDA graph of the step."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.train(*self.batches[0])
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.train(*self.batches[0])

    def step(self):
        """Do one step, with its data."""
        self.number += 1
        if self.options["loader_ms"]:
            end = time.perf_counter() + self.options["loader_ms"] / 1e3
            while time.perf_counter() < end:
                sum(range(1000))
        inputs, targets = self.batches[self.number % 2]
        if self.options["host_data"]:
            inputs = inputs.to(DEVICE, non_blocking=True).to(memory_format=torch.channels_last)
        if self.graph is not None:
            self.graph.replay()
        else:
            self.train(inputs, targets)


def wait():
    """Wait for the device."""
    if CUDA:
        torch.cuda.synchronize()


def plain_ms(program):
    """Return the median step in ms over several windows, and how far the windows are apart."""
    found = []
    for _ in range(WINDOWS):
        wait()
        start = time.perf_counter()
        for _ in range(WINDOW_STEPS):
            program.step()
        wait()
        found.append((time.perf_counter() - start) / WINDOW_STEPS * 1e3)
    return statistics.median(found), max(found) - min(found)


def recorded_ms(program, path):
    """Record a few steps into a file, and return the mean step in ms as the host's clock saw it."""
    profiler = torch.profiler
    activities = [profiler.ProfilerActivity.CPU] + ([profiler.ProfilerActivity.CUDA] if CUDA else [])
    schedule = profiler.schedule(wait=1, warmup=2, active=RECORDED, repeat=1)
    with profiler.profile(activities=activities, schedule=schedule, record_shapes=True) as profile:
        for number in range(3 + RECORDED):
            if number == 3:
                wait()
                start = time.perf_counter()
            program.step()
            if number == 2 + RECORDED:
                wait()
                took = time.perf_counter() - start
            profile.step()
    profile.export_chrome_trace(path)
    return took / RECORDED * 1e3


def alone(name, letter):
    """Run one side's steps between cudaProfilerStart and cudaProfilerStop, each in an NVTX range; print the mean step in ms."""
    base, change, _ = PLANTS[name]
    program = Program({**DEFAULTS, **base, **(change if letter == "b" else {})})
    for _ in range(8):
        program.step()
    plain, spread = plain_ms(program)
    wait()
    torch.cuda.cudart().cudaProfilerStart()
    start = time.perf_counter()
    for number in range(RECORDED):
        torch.cuda.nvtx.range_push(f"step {number}")
        program.step()
        torch.cuda.nvtx.range_pop()
    wait()
    took = (time.perf_counter() - start) / RECORDED * 1e3
    torch.cuda.cudart().cudaProfilerStop()
    print(f"{name} {letter}: plain {plain:.3f} ms, windows {spread:.3f} ms apart; recorded {took:.3f} ms", flush=True)


class Neighbour:
    """Another process that multiplies matrices on the same GPU while it is told to."""

    PROGRAM = """
import sys, threading, torch
a = torch.randn(4096, 4096, device=sys.argv[1]); working = threading.Event()
def work():
    while True:
        working.wait()
        for _ in range(20): a @ a
        if a.is_cuda: torch.cuda.synchronize()
threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin: (working.set if line.strip() == "go" else working.clear)()
"""

    def __init__(self):
        command = [sys.executable, "-c", self.PROGRAM, DEVICE]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, word):
        """Say go or stop."""
        if word == "go":
            self.process.stdout.readline()
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        time.sleep(0.5)

    def end(self):
        """End it."""
        self.process.kill()
        self.process.wait()


def side(options, path, neighbour):
    """Record one side; return the recorded, the plain step, and the spread of its windows, in ms."""
    program = Program({**DEFAULTS, **options})
    for _ in range(8):
        program.step()
    if options.get("neighbour"):
        neighbour.tell("go")
    plain, spread = plain_ms(program)
    recorded = recorded_ms(program, path)
    if options.get("neighbour"):
        neighbour.tell("stop")
    del program
    gc.collect()
    if CUDA:
        torch.cuda.empty_cache()
    return recorded, plain, spread


def main():
    """Record the pairs; a pair that fails is left out and said so."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--only", action="append", metavar="NAME", help="these plants (repeatable)")
    parser.add_argument("--side", choices=("a", "b"), help="record nothing: run the steps of this side of each plant")
    arguments = parser.parse_args()
    if arguments.side:
        for name in arguments.only or PLANTS:
            alone(name, arguments.side)
        return 0
    os.makedirs(arguments.folder, exist_ok=True)
    names = [name for name in PLANTS if not arguments.only or name in arguments.only]
    neighbour = Neighbour() if "other-process" in names else None
    failures = 0
    with open(os.path.join(arguments.folder, "truth.csv"), "w", newline="") as file:
        rows = csv.DictWriter(file, COLUMNS, restval="")
        rows.writeheader()
        for name in names:
            base, change, words = PLANTS[name]
            folder = os.path.join(arguments.folder, name)
            os.makedirs(folder, exist_ok=True)
            started = time.perf_counter()
            try:
                a, b = (
                    side(options, os.path.join(folder, letter + ".pt.trace.json.gz"), neighbour)
                    for letter, options in (("a", base), ("b", {**base, **change}))
                )
            except Exception as error:
                failures += 1
                print(f"{name:22} failed: {type(error).__name__}: {str(error).splitlines()[:1]}", flush=True)
                continue
            row = {"pair": name, "control": int(words is None), "cause_keywords": words or "", "cause_ms": round(b[0] - a[0], 3)}
            row.update(step_ms_a=round(a[0], 3), step_ms_b=round(b[0], 3), plain_ms_a=round(a[1], 3), plain_ms_b=round(b[1], 3))
            row.update(spread_ms=round(max(a[2], b[2]), 3))
            rows.writerow(row)
            file.flush()
            took = time.perf_counter() - started
            plain, recorded = (f"{one:8.3f} -> {other:8.3f} ms" for one, other in ((a[1], b[1]), (a[0], b[0])))
            print(f"{name:22} plain {plain}, recorded {recorded} ({took:.1f} s)", flush=True)
    if neighbour:
        neighbour.end()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
