"""TensorFlow 1's way: a graph and a session; trains with an optimizer, by hand, or only computes, as the first argument says."""

import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()


def main(how):
    """Train or compute for 80 steps, looking at the weights after every twentieth."""
    v1.set_random_seed(0)
    images, labels = v1.placeholder(tf.float32, (None, 16)), v1.placeholder(tf.float32, (None, 4))
    weights = v1.get_variable("weights", (16, 4))
    loss = tf.reduce_mean(tf.square(tf.matmul(images, weights) - labels), name="loss")
    fetches = {"loss": loss}
    if how == "optimizer":
        fetches["train"] = v1.train.AdamOptimizer(0.01).minimize(loss)
    elif how == "hand":
        fetches["train"] = v1.assign_sub(weights, 0.01 * tf.gradients(loss, weights)[0])
    rng = np.random.default_rng(0)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for step in range(80):
            batch = {images: rng.normal(size=(8, 16)), labels: rng.normal(size=(8, 4))}
            found = session.run(fetches, feed_dict=batch)
            if step % 20 == 0:
                print(f"{found['loss']:.5f}", session.run(weights).shape)


main(sys.argv[1])
