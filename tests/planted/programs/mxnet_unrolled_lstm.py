"""The LSTM unrolled into a graph of many small operators; hybridized, so that MXNet can run them in bulk."""

from mxnet.gluon import HybridBlock, nn, rnn

from kernelscope.workloads.mxnet import lstm, program


class UnrolledLSTM(HybridBlock):
    def __init__(self, classes, **keywords):
        super().__init__(**keywords)
        with self.name_scope():
            self.lstm1 = rnn.LSTMCell(128, input_size=28, prefix="lstm1_")
            self.fc1 = nn.Dense(classes, in_units=128, prefix="fc1_")
        self.lstm1.collect_params(".*h2h_bias").setattr("grad_req", "null")

    def hybrid_forward(self, F, rows):
        outputs, _ = self.lstm1.unroll(28, rows, layout="NTC", merge_outputs=False)
        return self.fc1(outputs[-1])


lstm.build = lambda network, dropout: UnrolledLSTM(network.classes, prefix="lstm_")


class Program(program.Program):
    def _parameter_name(self, layer, name):
        return super()._parameter_name(layer, name).replace("_l0_", "_")
