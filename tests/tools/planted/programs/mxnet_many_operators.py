"""A network of many tiny operators: its logits are reshaped to what they are, over and over."""

from mxnet.gluon import HybridBlock

from kernelscope.workloads.mxnet import lenet, program

TIMES = 2500
build = lenet.lenet


class Reshapes(HybridBlock):
    def hybrid_forward(self, F, values):
        for _ in range(TIMES):
            values = F.reshape(values, shape=(0, -1))
        return values


def with_reshapes(network, dropout):
    net = build(network, dropout)
    with net.name_scope():
        net.add(Reshapes(prefix="reshapes_"))
    return net


lenet.lenet = with_reshapes


class Program(program.Program):
    pass
