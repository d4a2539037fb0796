"""A script of CNTK that knows nothing of us, its layers without names. Arguments: trainer, session or eval; steps."""

import hashlib
import sys

import cntk as C
import numpy as np
from cntk.layers import BatchNormalization, Convolution2D, Dense, MaxPooling, Sequential

BATCH = 8


def network(images):
    """Return the outputs of a network; one of its layers has a name."""
    return Sequential(
        [
            Convolution2D((3, 3), 6, pad=True, activation=C.relu),
            BatchNormalization(map_rank=1),
            Convolution2D((5, 5), 8, pad=True, activation=C.relu),
            MaxPooling((2, 2), strides=2),
            Dense(32, activation=C.tanh, name="hidden"),
            Dense(10),
        ]
    )(images)


def main():
    """Train or evaluate, and print what came out."""
    how, steps = sys.argv[1], int(sys.argv[2])
    C.cntk_py.set_fixed_random_seed(1)
    random = np.random.default_rng(1)
    images, labels = C.input_variable((3, 16, 16)), C.input_variable(10)
    output = network(images)
    data = random.random((steps, BATCH, 3, 16, 16), dtype="float32")
    truth = np.eye(10, dtype="float32")[random.integers(0, 10, (steps, BATCH))]
    digest = hashlib.sha256()
    loss, error = C.cross_entropy_with_softmax(output, labels), C.classification_error(output, labels)
    learner = C.momentum_sgd(output.parameters, C.learning_parameter_schedule(0.01), C.momentum_schedule(0.9))
    if how == "eval":
        for batch in data:
            digest.update(np.asarray(output.eval({images: batch})).tobytes())
    elif how == "session":
        flat = [part.reshape((-1, *part.shape[2:])) for part in (data, truth)]
        C.combine([loss, error]).train(tuple(flat), minibatch_size=BATCH, max_epochs=1, parameter_learners=[learner])
    else:
        trainer = C.Trainer(output, (loss, error), [learner])
        for batch, target in zip(data, truth):  # noqa: B905  Python 3.6
            trainer.train_minibatch({images: batch, labels: target})
            print("loss", trainer.previous_minibatch_loss_average)
    for parameter in output.parameters:
        digest.update(parameter.value.tobytes())
    print(digest.hexdigest())
    sys.exit(3)


if __name__ == "__main__":
    main()
