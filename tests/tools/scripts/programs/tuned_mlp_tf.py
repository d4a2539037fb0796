"""A wide perceptron in a compiled tf.function; its data is one tensor."""
import sys

import tensorflow as tf

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 400
tf.random.set_seed(0)
model = tf.keras.Sequential([
    tf.keras.layers.Dense(1536, activation="relu"), tf.keras.layers.Dense(1536, activation="relu"), tf.keras.layers.Dense(512),
])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(0.01)
x, y = tf.random.normal((512, 1536)), tf.random.uniform((512,), 0, 512, tf.int32)
model(x)
optimizer.build(model.trainable_variables)


@tf.function(jit_compile=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for step in range(STEPS):
    loss = train_step(x, y)
print(float(loss))
