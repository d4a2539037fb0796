"""What kernelscope recorded or imported: folders, and the files in them."""
