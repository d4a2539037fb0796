"""ONNX Runtime: networks as ONNX graphs, for inference."""
