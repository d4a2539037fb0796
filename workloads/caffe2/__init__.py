"""Caffe2: networks as operators over a workspace's blobs, built with model_helper and brew."""
