"""What kernelscope recorded itself, or imported: folders, and the files in them."""
