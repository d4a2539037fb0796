"""The portable agent: runs the passes with the interpreter it is started with, for machines where nothing can be installed.

Python 3.6+ and its standard library only. `kernelscope agent -o agent.pyz` packs it into one file, with the code that runs
inside the framework and the workloads. It records a run folder like any other, to be analysed elsewhere.
"""
