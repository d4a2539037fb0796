"""One LSTM over the rows of an image with cntk.layers."""

from cntk.layers import LSTM, Dense, Fold, Sequential


def lstm(network, _dropout):
    """Return the model as a CNTK function of a sequence of rows; it has no dropout to switch."""
    return Sequential([Fold(LSTM(128), name="lstm1"), Dense(network.classes, name="fc1")])
