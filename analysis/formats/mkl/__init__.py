"""MKL_VERBOSE lines; streams mix them with oneDNN's, so both are read together (see formats.onednn)."""
