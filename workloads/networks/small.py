"""The small networks: framework examples, and the networks of published comparisons.

Runs under Python 3.6.
"""

from kernelscope.workloads.networks.builder import Builder
from kernelscope.workloads.networks.description import Network

_SGD = {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9}


def lenet() -> Network:
    """LeNet-5: 61,706 parameters, close to the 60 thousand of LeCun et al. (1998), whose second convolution was sparse."""
    b = Builder((1, 28, 28))
    b.convolution("conv1", 6, 5, padding=2).activation("tanh1", "tanh").pooling("pool1", "average", 2)
    b.convolution("conv2", 16, 5, padding=0).activation("tanh2", "tanh").pooling("pool2", "average", 2)
    b.flatten("flatten").dense("fc1", 120).activation("tanh3", "tanh")
    b.dense("fc2", 84).activation("tanh4", "tanh").dense("fc3", 10)
    return b.network("lenet", "LeNet-5 on MNIST shapes", "mnist", _SGD)


def mlp() -> Network:
    """The Keras MNIST example network: 669,706 parameters."""
    b = Builder((784,))
    b.dense("fc1", 512).activation("relu1", "relu").dropout("dropout1", 0.2)
    b.dense("fc2", 512).activation("relu2", "relu").dropout("dropout2", 0.2)
    b.dense("fc3", 10)
    optimizer = {"name": "rmsprop", "learning_rate": 0.001, "decay": 0.9}
    return b.network("mlp", "Two hidden layers on MNIST shapes", "mnist", optimizer)


def cnn() -> Network:
    """The Keras CIFAR-10 example network: 1,250,858 parameters."""
    b = Builder((3, 32, 32))
    b.convolution("conv1", 32, 3, padding=1).activation("relu1", "relu")
    b.convolution("conv2", 32, 3, padding=0).activation("relu2", "relu").pooling("pool1", "max", 2)
    b.dropout("dropout1", 0.25)
    b.convolution("conv3", 64, 3, padding=1).activation("relu3", "relu")
    b.convolution("conv4", 64, 3, padding=0).activation("relu4", "relu").pooling("pool2", "max", 2)
    b.dropout("dropout2", 0.25).flatten("flatten")
    b.dense("fc1", 512).activation("relu5", "relu").dropout("dropout3", 0.5).dense("fc2", 10)
    optimizer = {"name": "rmsprop", "learning_rate": 0.0001, "decay": 0.9}
    return b.network("cnn", "The Keras CIFAR-10 example network", "cifar10", optimizer)


def lstm() -> Network:
    """One LSTM of 128 units: 81,674 parameters."""
    b = Builder((28, 28))
    b.lstm("lstm1", 128).dense("fc1", 10)
    return b.network("lstm", "One LSTM over the 28 rows of an MNIST image", "mnist", _SGD)


def cifarcnn() -> Network:
    """The CIFAR-10 network of the comparison of eleven frameworks: two pairs of 3x3 convolutions, of 50 and 100 channels.

    3.4 million parameters. The layers and the update rule are those of its public repository.
    """
    b = Builder((3, 32, 32))
    b.convolution("conv1", 50, 3, padding=1).activation("relu1", "relu")
    b.convolution("conv2", 50, 3, padding=1).activation("relu2", "relu").pooling("pool1", "max", 2)
    b.dropout("dropout1", 0.25)
    b.convolution("conv3", 100, 3, padding=1).activation("relu3", "relu")
    b.convolution("conv4", 100, 3, padding=1).activation("relu4", "relu").pooling("pool2", "max", 2)
    b.dropout("dropout2", 0.25).flatten("flatten")
    b.dense("fc1", 512).activation("relu5", "relu").dropout("dropout3", 0.5).dense("fc2", 10)
    return b.network("cifarcnn", "The CIFAR-10 network of the eleven frameworks", "cifar10", _SGD)


def gru() -> Network:
    """The IMDB network of the comparison of eleven frameworks: 30,000 words of 125 numbers, reviews of 150 words, 100 units.

    Two classes with a softmax; 3,818,302 parameters, 3,750,000 of them in the embedding.
    """
    b = Builder((150,))
    b.embedding("embedding", 30000, 125).gru("gru1", 100).dense("fc1", 2)
    optimizer = {"name": "adam", "learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
    return b.network("gru", "One GRU over the words of a review, IMDB shapes", "imdb", optimizer, words=30000)


def _fcn(name: str, title: str, hidden: int) -> Network:
    b = Builder((26752,))
    for number in range(1, hidden + 1):
        b.dense("fc%d" % number, 1024).activation("sigmoid%d" % number, "sigmoid")
    b.dense("fc%d" % (hidden + 1), 26752)
    return b.network(name, title, "random", {"name": "sgd", "learning_rate": 0.01, "momentum": 0.9})


def fcn5() -> Network:
    """FCN-5 of Shi et al. (2016): 26,752 numbers in and out, 55.9 million parameters.

    The paper states 55 million parameters but no hidden size. The two outer matrices with 1,024 hidden units have 54.8 million;
    the remaining million is one further 1024 x 1024 layer. The five layers thus include input and output.
    """
    return _fcn("fcn5", "FCN-5 of Shi et al.", 2)


def fcn8() -> Network:
    """FCN-8 of Shi et al. (2016): three more hidden layers than FCN-5; 59.0 million parameters (the paper states 58)."""
    return _fcn("fcn8", "FCN-8 of Shi et al.", 5)


def _recurrent(name: str, title: str, steps: int) -> Network:
    b = Builder((steps, 10000))
    b.lstm("lstm1", 256, sequence=True).lstm("lstm2", 256).dense("fc1", 10000)
    return b.network(name, title, "random", _SGD)


def lstm32() -> Network:
    """LSTM-32 of Shi et al. (2016): two layers over 32 steps of 10,000 numbers; 13.6 million parameters (13 in the paper).

    The paper gives no hidden size; 256 units fit its count. A dense layer maps the last state to one of 10,000 words.
    """
    return _recurrent("lstm32", "LSTM-32 of Shi et al.", 32)


def lstm64() -> Network:
    """LSTM-64 of Shi et al. (2016): LSTM-32 over 64 steps."""
    return _recurrent("lstm64", "LSTM-64 of Shi et al.", 64)
