"""One GRU over the words of a review with cntk.layers.

cntk.layers.GRU resets the state before its product. cuDNN's form, which needs one product fewer, is available on GPUs only,
with optimized_rnnstack, so the step is written out here. The words' vectors are gathered. cntk.layers.Embedding would multiply
one-hot words instead, and CNTK's Adam does not accept its sparse gradient on the CPU.
"""

from typing import Any

import cntk as C
from cntk.layers import Dense, Fold, Sequential

from kernelscope.workloads.networks import Network

_UNITS = 100


def _gru(units: int) -> Any:
    """Return one step of a GRU in cuDNN's form; the gates are reset, update and new."""
    input_weight = C.Parameter((C.InferredDimension, 3 * units), init=C.glorot_uniform(), name="W")
    hidden_weight = C.Parameter((units, 3 * units), init=C.glorot_uniform(), name="H")
    input_bias = C.Parameter(3 * units, name="b")
    hidden_bias = C.Parameter(3 * units, name="c")

    def gate(sums: Any, number: int) -> Any:
        return C.slice(sums, -1, number * units, (number + 1) * units)

    @C.Function
    def step(state, words):  # type: (Any, Any) -> Any
        of_words = C.times(words, input_weight) + input_bias
        of_state = C.times(state, hidden_weight) + hidden_bias
        reset = C.sigmoid(gate(of_words, 0) + gate(of_state, 0))
        update = C.sigmoid(gate(of_words, 1) + gate(of_state, 1))
        new = C.tanh(gate(of_words, 2) + reset * gate(of_state, 2))
        return (1 - update) * new + update * state

    return step


def gru(network: Network, _dropout: bool) -> Any:
    """Return the model as a CNTK function of a sequence of word numbers; it has no dropout to switch off."""
    vectors = C.Parameter((network.words, 125), init=C.glorot_uniform(), name="E")
    return Sequential(
        [
            lambda words: C.gather(vectors, words, name="embedding"),
            Fold(_gru(_UNITS), name="gru1"),
            Dense(network.classes, name="fc1"),
        ]
    )
