"""The portable agent: runs the passes with the interpreter it is started with, for machines where nothing can be installed.

Python 3.6+ and its standard library only. `kernelscope agent -o agent.pyz` packs it with the code inside the framework and the
workloads into one file; what it records is a run folder like any other, to be analysed elsewhere.
"""
