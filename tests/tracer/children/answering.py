"""A child that does what it is told and nothing else, as far as its parent can see."""

import json
import os
import sys

with open(sys.argv[1]) as file:
    spec = json.load(file)
os.umask(spec.get("umask", 0o022))
answers = os.fdopen(spec["answers_fd"], "w")


def answer(message):
    answers.write(json.dumps(message) + "\n")
    answers.flush()


print("a child's word", flush=True)
answer({"event": "ready", "pid": os.getpid(), "variables": dict(os.environ)})
for line in os.fdopen(spec["commands_fd"]):
    if json.loads(line)["do"] == "fail":
        print("the child's last word", flush=True)
        os.abort()
    with open("told.txt", "a") as told:
        told.write(line)
    what = json.loads(line)["do"]
    answer({"event": "finished"} if what == "finish" else {"event": "window", "step_ns": [5]})
    if what == "finish":
        break
