import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import sys
import numpy as np
import tensorflow as tf

# ---- config -----------------------------------------------------------------
NUM_STEPS = int(os.environ.get("NUM_STEPS", "400"))
BATCH_SIZE = 48
MAX_LEN = 40
VOCAB = 3000
EMB = 64
UNITS = 96
N_CLASSES = 4
LEARNING_RATE = 2e-3

tf.random.set_seed(5)
rng = np.random.default_rng(5)


# ---- data: every class has its favourite words -------------------------------
def make_split(n):
    labels = rng.integers(0, N_CLASSES, n)
    text = rng.integers(100, VOCAB, (n, MAX_LEN))
    fav = rng.integers(1, 20, (n, MAX_LEN)) + 20 * labels[:, None]
    pick = rng.random((n, MAX_LEN)) < 0.15
    text = np.where(pick, fav, text)
    return text.astype(np.int32), labels.astype(np.int32)


train_text, train_labels = make_split(5000)
test_text, test_labels = make_split(320)

train_ds = tf.data.Dataset.from_tensor_slices((train_text, train_labels))
train_ds = train_ds.shuffle(5000, seed=5).repeat()
train_ds = train_ds.batch(BATCH_SIZE, drop_remainder=True)
train_ds = train_ds.prefetch(2)

test_ds = tf.data.Dataset.from_tensor_slices((test_text, test_labels)).batch(64)


# ---- model -------------------------------------------------------------------
class TextClassifier(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(VOCAB, EMB)
        self.gru = tf.keras.layers.GRU(UNITS, return_sequences=True)
        self.dropout = tf.keras.layers.Dropout(0.3)
        self.hidden = tf.keras.layers.Dense(64, activation="relu")
        self.out = tf.keras.layers.Dense(N_CLASSES)

    def call(self, tokens, training=False):
        x = self.embedding(tokens)
        x = self.gru(x, training=training)
        x = tf.reduce_max(x, axis=1)
        x = self.dropout(x, training=training)
        x = self.hidden(x)
        return self.out(x)


model = TextClassifier()
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(LEARNING_RATE)

train_loss = tf.keras.metrics.Mean(name="train_loss")
train_acc = tf.keras.metrics.SparseCategoricalAccuracy(name="train_acc")
test_acc = tf.keras.metrics.SparseCategoricalAccuracy(name="test_acc")


@tf.function
def train_step(text, labels):
    with tf.GradientTape() as tape:
        logits = model(text, training=True)
        loss = loss_fn(labels, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    grads, _ = tf.clip_by_global_norm(grads, 5.0)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    train_loss.update_state(loss)
    train_acc.update_state(labels, logits)
    return loss


@tf.function
def test_step(text, labels):
    logits = model(text, training=False)
    test_acc.update_state(labels, logits)


def run_test():
    test_acc.reset_state()
    for text, labels in test_ds:
        test_step(text, labels)
    return float(test_acc.result())


# ---- training ----------------------------------------------------------------
for step, (text, labels) in enumerate(train_ds.take(NUM_STEPS), start=1):
    loss = train_step(text, labels)

    if step % 50 == 0:
        print("step {:4d} loss {:.4f} acc {:.3f}".format(
            step, float(train_loss.result()), float(train_acc.result())))
        sys.stdout.flush()
        train_loss.reset_state()
        train_acc.reset_state()

    if step % 200 == 0:
        print("step {:4d} test acc {:.3f}".format(step, run_test()))

print("done")
