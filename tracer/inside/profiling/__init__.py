"""Profiling of scripts that know nothing of kernelscope: the code loaded into their process.

| module | job |
|---|---|
| injected/sitecustomize | is run by the interpreter before the script; makes way for the user's own and starts `start` |
| start | reads what to record, makes `kernelscope.tracer` importable, watches imports |
| imports | calls back when a module has been imported |
| frameworks (beside this folder) | one adapter per framework: where its steps end, ranges around its layers, its operator trace |
| rounds | which of several recurring events ends a step |
| processes | which of a script's processes this is |
| recording | the passes in ONE process: warm-up, clean, layers, kernels, lines, then off; the files of a run folder |
| faults | logs failures of the recording and keeps them from the script |
| passes, parts | one pass over a few steps, and how its output stays within bounds |
| focus, line_events, host_lines | which functions' lines are watched, their events, and what is made of these |
| patches | removable wrappers around other people's functions |
| printed | lines that libraries print, kept apart from what the script prints |
| muted | drops a library's line on stderr that the script would not print without us |

Until a framework is imported, only `start` and `imports` are loaded. Wrappers exist only during the passes that need them.
"""
