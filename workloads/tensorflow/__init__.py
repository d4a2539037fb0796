"""TensorFlow 2 with Keras 3."""
