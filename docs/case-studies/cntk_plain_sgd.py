"""The workload in CNTK with its plain SGD learner in place of the one that computes what other frameworks' RMSprop does."""

import cntk as C

from kernelscope.workloads.cntk import program


class Program(program.Program):
    """The same network; its update is another, so that its losses are not those of the other frameworks."""

    def __init__(self, network, options):
        super().__init__(network, options)
        rate = C.learning_parameter_schedule(0.01, minibatch_size=options["batch"])
        self.trainer = C.Trainer(self.model, self.loss, [C.sgd(self.model.parameters, rate)])
