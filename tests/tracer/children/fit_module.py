"""A script of MXNet's symbols and Module.fit or predict that knows nothing of us. Arguments: fit or predict; steps."""

import hashlib
import sys

import mxnet as mx
import numpy as np

BATCH = 8


def network():
    """Return a network of named nodes, two of them beside each other."""
    data = mx.sym.var("data")
    stem = mx.sym.Convolution(data, kernel=(3, 3), num_filter=8, pad=(1, 1), name="stem")
    norm = mx.sym.BatchNorm(mx.sym.Activation(stem, act_type="relu", name="relu"), name="norm")
    pool = mx.sym.Pooling(norm, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    main = mx.sym.Convolution(pool, kernel=(3, 3), num_filter=8, pad=(1, 1), name="main")
    both = mx.sym.elemwise_add(main, mx.sym.Convolution(pool, kernel=(1, 1), num_filter=8, name="short"), name="both")
    head = mx.sym.FullyConnected(mx.sym.flatten(both, name="flat"), num_hidden=10, name="head")
    return mx.sym.SoftmaxOutput(head, name="softmax")


def main():
    """Fit or predict, and print what came out."""
    steps = int(sys.argv[2])
    mx.random.seed(1)
    np.random.seed(1)  # noqa: NPY002  Xavier draws from it
    random = np.random.default_rng(1)
    images = random.random((steps * BATCH, 3, 16, 16), dtype="float32")
    labels = random.integers(0, 10, steps * BATCH).astype("float32")
    batches = mx.io.NDArrayIter(images, labels, BATCH)
    module = mx.mod.Module(network())
    if sys.argv[1] == "fit":
        module.fit(
            batches,
            num_epoch=1,
            optimizer_params={"learning_rate": 0.05},
            initializer=mx.init.Xavier(),
            batch_end_callback=lambda told: print(told.nbatch, told.eval_metric.get()),
        )
        values = [value.asnumpy() for _, value in sorted(module.get_params()[0].items())]
    else:
        module.bind(batches.provide_data, batches.provide_label, for_training=False)
        module.init_params(mx.init.Xavier())
        values = [module.predict(batches).asnumpy()]
    print(hashlib.sha256(b"".join(value.tobytes() for value in values)).hexdigest())


if __name__ == "__main__":
    main()
