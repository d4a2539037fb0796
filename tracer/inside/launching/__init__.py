"""Running somebody's own command with our code in its Python interpreters: what stands around it, not in it.

| module | job |
|---|---|
| options | what is to be recorded, and the options of command lines for it |
| parsing | the parser of command lines, which takes no empty names of files |
| command | the command's process: its environment, signals, exit status |
| watching | samples of processor, memory and GPU while a pass is recorded |
| outcome | what the processes left, entered into run.json and said in a few lines |
| launch | all of it in order |
| errors | what can be wrong |

Shared by `kernelscope profile` and the portable agent, therefore Python 3.6+ and the standard library only.
"""
