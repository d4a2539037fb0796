"""Programs that nobody of this project wrote, shipped in packages of the registry: where they come from and how they are run.

None of them is changed. What has to be said is said by options, by variables, and by small data files that are made here. A
program of a source distribution runs in a copy of its own folder; one of an installed package in an empty folder.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """Packages beside those of a framework's own environment, if any. alone: installed without what they say they need."""

    framework: str  # whose environment, as `kernelscope env` names it
    packages: tuple[str, ...]
    alone: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """One program. command: with {python} and {bin}/name of its environment. source: the source distribution that has it, and
    `folder` in there where it runs. data: writes what it reads. seed: what is seeded from outside (see seeded/), where the
    program does not. options: of `kernelscope profile`. changing: files that differ from run to run by their nature. quick: among
    those that CI runs. long: takes many minutes, and runs only when it is named. longer: other values of options of the command,
    for steps that are enough for many turns (see turns). runs: how often it is run instead, where it cannot be made longer.
    """

    name: str
    package: str
    environment: str
    command: tuple[str, ...]
    source: str | None = None
    folder: str = ""
    data: Callable[[Path], None] | None = None
    seed: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    changing: tuple[str, ...] = ()
    quick: bool = False
    long: bool = False
    longer: dict[str, str] = field(default_factory=dict)
    runs: int = 0

    def longer_command(self) -> tuple[str, ...]:
        """Return the command with the values of `longer`."""
        before = ("", *self.command[:-1])
        return tuple(self.longer.get(option, part) for option, part in zip(before, self.command, strict=True))


ENVIRONMENTS = {
    "torch": Environment(
        "pytorch",
        (
            "chemprop==2.3.1", "deepxde==1.15.0", "pykeen==1.11.1", "rl_zoo3==2.9.2",
        ),
    ),
    "ignite": Environment("pytorch", ("accelerate==1.15.0", "gymnasium==1.4.0", "pytorch-ignite==0.5.5")),  # small, for CI
    "keras-tensorflow": Environment("tensorflow", ()),
    "keras-jax": Environment("jax", ()),
    "tensorflow": Environment(
        "tensorflow", ("deepxde==1.15.0", "dm-tree==0.1.10", "decorator==5.3.1", "cloudpickle==3.1.2"),
        alone=("tensorflow-probability==0.25.0", "tf_keras==2.21.0"),
    ),
    "jax": Environment("jax", ("deepxde==1.15.0", "flax==0.12.8")),
    "jax-modules": Environment("jax", ("equinox==0.13.8", "flax==0.12.8")),  # of tests/tracer/test_profile_jax.py
    "mxnet": Environment("mxnet", ("pyyaml", "portalocker", "sacrebleu==1.4.14", "typing"), alone=("sockeye==2.3.24",)),
    "cntk": Environment("cntk", ("Keras==2.2.4",)),
}  # fmt: skip


def molecules(folder: Path) -> None:
    """Chains and rings with a value that depends on their atoms, for chemprop."""
    rows = ["smiles,value"]
    heads, tails = ("C", "N", "O", "c1ccccc1", "CC(C)", "FC"), ("O", "N", "Cl", "C=O", "c1ccncc1")
    for head, length, tail in itertools.product(heads, range(1, 11), tails):
        rows.append(f"{head}{'C' * length}{tail},{length + 2 * len(tail) - len(head)}")
    (folder / "molecules.csv").write_text("\n".join(rows) + "\n")


def sentences(folder: Path) -> None:
    """Pairs of very short sentences, tab between them, for Keras's sequence to sequence example: it decodes a hundred of them."""
    (folder / "fra-eng").mkdir()
    (folder / "fra-eng" / "fra.txt").write_text("".join(f"{a}\t{b}\n" for a, b in _pairs(160, "abcdefgh", 3)))


def parallel_texts(folder: Path) -> None:
    """The same in two files, for sockeye."""
    pairs = _pairs(2000, ["".join(letters) for letters in itertools.product("bdgk", "aeiou", "lmnr")], 12)
    for name, side in (("source", 0), ("target", 1)):
        (folder / f"{name}.txt").write_text("".join(pair[side] + "\n" for pair in pairs))


def _pairs(count: int, words: Sequence[str], longest: int) -> list[tuple[str, str]]:
    """Return sentences of up to so many words and the same words reversed, by a generator of their own."""
    generator = random.Random(0)
    texts = [[generator.choice(words) for _ in range(generator.randint(2, longest))] for _ in range(count)]
    return [(" ".join(text), " ".join(reversed(text))) for text in texts]


# ignite's agents stop once they have learned, and steps become longer with what they learn
_UNLEARNED = {"--max-episodes": "10000", "--gamma": "0"}
_DEEPXDE, _IGNITE, _FLAX, _KERAS = "deepxde==1.15.0", "pytorch-ignite==0.5.5", "flax==0.12.8", "Keras==2.2.4"


def _deepxde(backend: str, environment: str, folder: str, script: str, **more: object) -> Program:
    return Program(
        f"{script} ({environment})", _DEEPXDE, environment, ("{python}", script), _DEEPXDE, f"examples/{folder}",
        variables={"DDE_BACKEND": backend, "MPLBACKEND": "Agg"}, seed={"pytorch": "torch"}.get(backend, backend), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _seq2seq(backend: str, environment: str, **more: object) -> Program:
    return Program(
        f"lstm_seq2seq.py (Keras on {backend})", _KERAS, environment, ("{python}", "lstm_seq2seq.py"), _KERAS, "examples",
        sentences, variables={"KERAS_BACKEND": backend}, long=True, **more,  # type: ignore[arg-type]
    )  # fmt: skip


PROGRAMS = (
    Program(
        "actor_critic.py", _IGNITE, "ignite", ("{python}", "actor_critic.py", "--max-episodes", "60", "--gamma", "0.99"),
        _IGNITE, "examples/reinforcement_learning", seed="torch", quick=True,
        options=("--steps", "6", "--warmup", "5"), longer=_UNLEARNED,
    ),
    Program(
        "reinforce.py", _IGNITE, "ignite", ("{python}", "reinforce.py", "--max-episodes", "60", "--gamma", "0.99"),
        _IGNITE, "examples/reinforcement_learning", seed="torch", options=("--steps", "6", "--warmup", "5"),
        longer=_UNLEARNED,
    ),
    Program(
        "test_script", "accelerate==1.15.0", "ignite", ("{python}", "-m", "accelerate.test_utils.scripts.test_script"),
        runs=20,
    ),
    Program(
        "pykeen train", "pykeen==1.11.1", "torch",
        ("{bin}/pykeen", "train", "rotate", "--dataset", "nations", "-n", "30", "-b", "64", "--embedding-dim", "64",
         "--random-seed", "0", "--device", "cpu", "--output-directory", "out"),
        changing=("out/*",), longer={"-n": "100"},
    ),
    Program(
        "rl_zoo3.train", "rl_zoo3==2.9.2", "torch",
        ("{python}", "-m", "rl_zoo3.train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "3000", "--seed", "1",
         "--device", "cpu", "--eval-freq", "-1", "-f", "logs", "-params", "n_envs:1", "n_steps:256", "batch_size:64"),
        changing=("*.zip", "*.csv", "*tfevents*", "*.pkl"), longer={"-n": "12000"},
    ),
    Program(
        "chemprop train", "chemprop==2.3.1", "torch",
        ("{bin}/chemprop", "train", "--data-path", "molecules.csv", "--epochs", "12", "--pytorch-seed", "0", "-b", "32",
         "--accelerator", "cpu", "-n", "0", "-o", "out", "--remove-checkpoints"),
        data=molecules, seed="torch", changing=("*.pt", "*.ckpt", "*.log"), longer={"--epochs": "400"},
    ),
    _deepxde("pytorch", "torch", "function", "func.py"),
    _deepxde("tensorflow", "tensorflow", "function", "func.py"),
    _deepxde("jax", "jax", "function", "func.py"),
    _deepxde("tensorflow", "tensorflow", "pinn_forward", "diffusion_1d_resample.py"),  # larger steps than func.py's
    _seq2seq("tensorflow", "keras-tensorflow", seed="keras"),
    _seq2seq("jax", "keras-jax", seed="keras"),
    _seq2seq("cntk", "cntk", seed="cntk"),
    Program(
        "02_lifted_transforms.py", _FLAX, "jax", ("{python}", "02_lifted_transforms.py"), _FLAX, "examples/nnx_toy_examples",
        seed="numpy", variables={"MPLBACKEND": "Agg"},
    ),
    Program(
        "sockeye.train", "sockeye==2.3.24", "mxnet",
        ("{python}", "-m", "sockeye.train", "-s", "source.txt", "-t", "target.txt", "-vs", "source.txt", "-vt", "target.txt",
         "-o", "model", "--use-cpu", "--num-layers", "1", "--transformer-model-size", "64", "--transformer-attention-heads", "4",
         "--transformer-feed-forward-num-hidden", "128", "--num-embed", "64", "--batch-size", "16", "--batch-type", "sentence",
         "--max-updates", "120", "--checkpoint-interval", "60", "--decode-and-evaluate", "0", "--seed", "1",
         "--num-words", "500"),
        data=parallel_texts, changing=("model/log", "model/metrics", "model/training_state/training.pkl"),
        longer={"--max-updates": "1200", "--checkpoint-interval": "1200"},
    ),
)  # fmt: skip
