"""The version of kernelscope: setup.py gives it to the package, run folders and imports keep it.

A constant, not asked of the installed package's metadata: to read those takes as long as to decode some megabytes.
"""

VERSION = "0.1.0"
