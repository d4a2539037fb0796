"""Profiling of scripts that know nothing of kernelscope: what is loaded into their process.

| module | job |
|---|---|
| injected/sitecustomize | is run by the interpreter before the script; makes way for the user's own and starts `start` |
| start | reads what is to be recorded, makes `kernelscope.tracer` importable, watches imports |
| imports | calls back when a module has been imported |
| frameworks (beside this folder) | one adapter a framework: where its steps end, ranges around its layers, its operator trace |
| rounds | which of the things that end again and again ends a step |
| processes | which of a script's processes this is |
| recording | the passes in ONE process: warm-up, clean, layers, kernels, lines, then off; the files of a run folder |
| faults | what fails in recording is written down, and stays there |
| passes, parts | one pass over a few steps, and how what it writes stays within bounds |
| focus, line_events, host_lines | which functions' lines are watched, their events, and what is made of these |
| patches | wrappers around other people's functions that can be taken away again |
| printed | lines that libraries print, kept apart from what the script prints |
| muted | a line of a library's on stderr that the script would not print without us |

Until a framework is imported nothing but `start` and `imports` is loaded, and outside of the passes that need them no wrapper
is left in place.
"""
