"""cuDNN's and cuBLAS's C libraries called directly: what a network costs without a framework on a GPU."""
