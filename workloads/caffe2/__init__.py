"""Caffe2: networks as operators over blobs of a workspace, made with model_helper and brew."""
