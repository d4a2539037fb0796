"""Lines of MKL_VERBOSE; they stand in streams with oneDNN's, and are read with these (see formats.onednn)."""
