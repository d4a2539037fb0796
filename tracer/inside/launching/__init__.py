"""Running somebody's own command with our code in its Python interpreters: the part around the command, not in it.

| module | job |
|---|---|
| options | what to record, and the command-line options for it |
| parsing | the parser of command lines, which rejects empty file names |
| command | the command's process: its environment, signals, exit status |
| watching | samples of processor, memory and GPU while a pass is recorded |
| outcome | what the processes left, entered into run.json and summarised in a few lines |
| launch | all of it in order |
| errors | what can go wrong |

`kernelscope profile` and the portable agent share it, so it needs only Python 3.6+ and the standard library.
"""
