"""What is planted: changes of a workload whose effect is known, and changes that look like causes and have none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True)
class Plant:
    """One pair of sides of a framework: A as it is, B with one change.

    program: of B, in the folder programs; base: of both sides, for a change that is only a variable. env: variables of B;
    base_env: of A, where a machine's default would do.
    causes: names of causes of which one must be ranked first; empty for a control, about which nothing may be said. Sizes are
    such that the change moves the step by 30% at least, and one thread where the change is not about threads: two are
    disturbed by whatever else a machine of two cores does.
    """

    name: str
    causes: tuple[str, ...]
    network: str
    program: str | None = None
    base: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    base_env: dict[str, str] = field(default_factory=dict)
    mode: str = "train"
    batch: int = 64
    threads: int = 1
    steps: int = 30

    @property
    def framework(self) -> str:
        """The framework of both sides, which the name begins with."""
        return self.name.partition(" ")[0]

    @property
    def folder(self) -> str:
        """The name as a folder's name."""
        return self.name.replace(" ", "-")


PLANTS = (
    Plant("pytorch onednn off", ("library switched off",), "cnn", "pytorch_onednn_off", batch=16),
    Plant("pytorch one thread", ("thread count",), "cnn", "pytorch_one_thread", batch=64, threads=2),
    Plant("pytorch channels-last copies", ("layout conversions",), "vgg16_cifar10", "pytorch_channels_last_copies", mode="infer",
          batch=8),
    Plant("pytorch float64 layer", ("precision",), "mlp", "pytorch_float64_layer", batch=256),
    Plant("pytorch manual activation", ("unfused elementwise chain",), "lenet", "pytorch_manual_activation"),
    Plant("pytorch python optimizer", ("optimizer implementation",), "lenet", "pytorch_python_optimizer", batch=16),
    Plant("pytorch slow loading", ("input pipeline",), "lenet", "pytorch_slow_loading", batch=32),
    Plant("pytorch checkpointing", ("recomputation",), "lenet", "pytorch_checkpointing"),
    Plant("pytorch clones", ("extra copies",), "lenet", "pytorch_clones", batch=128),
    Plant("pytorch unrolled lstm", ("recurrent layer cell by cell",), "lstm", "pytorch_unrolled_lstm", batch=32),
    Plant("tensorflow eager", ("eager against graph",), "lenet", "tensorflow_eager", batch=32),
    Plant("tensorflow onednn off", ("library switched off",), "cnn", batch=16, env={"TF_ENABLE_ONEDNN_OPTS": "0"},
          base_env={"TF_ENABLE_ONEDNN_OPTS": "1"}),  # not every processor has it on by default
    Plant("tensorflow slow input", ("input pipeline",), "lenet", "tensorflow_slow_input", batch=32),
    Plant("mxnet imperative", ("eager against graph",), "lenet", "mxnet_imperative", batch=1),
    Plant("mxnet bulk off", ("execution settings",), "lenet", base="mxnet_many_operators", batch=1, steps=20,
          env={"MXNET_EXEC_BULK_EXEC_TRAIN": "0", "MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN": "0"}),
    Plant("cntk tracing", ("execution settings",), "lenet", "cntk_tracing", batch=16),
)  # fmt: skip

CONTROLS = (
    Plant("pytorch as it is", (), "lenet"),
    Plant("pytorch identities", (), "lenet", "pytorch_identities"),
    Plant("pytorch same threads", (), "mlp", "pytorch_same_threads"),
    Plant("pytorch data loader", (), "lenet", "pytorch_data_loader"),
    Plant("pytorch channels-last", (), "mlp", "pytorch_channels_last"),
    Plant("tensorflow variable", (), "lenet", batch=32, env={"TF_ENABLE_DEPRECATION_WARNINGS": "0"}),
)
