"""A child that misbehaves as its first argument's spec says: what the parent must survive."""

import json
import os
import signal
import subprocess
import sys
import time

with open(sys.argv[1]) as file:
    spec = json.load(file)
answers = os.fdopen(spec["answers_fd"], "w")
fault = spec["pass"]
if fault == "exit":
    print("something went wrong in the framework")
    sys.exit(7)
elif fault == "abort":
    os.kill(os.getpid(), signal.SIGABRT)
elif fault == "hang":
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open("grandchild.pid", "w") as file:
        file.write(str(grandchild.pid))
    answers.write('{"event": "rea')  # half a line, then nothing
    answers.flush()
    time.sleep(600)
elif fault == "error":
    answers.write(json.dumps({"event": "error", "kind": "failed", "message": "RuntimeError: out of memory"}) + "\n")
elif fault == "import":
    answers.write(json.dumps({"event": "error", "kind": "import", "message": "No module named 'torch'"}) + "\n")
elif fault == "closed":
    os.close(spec["commands_fd"])
    answers.write(json.dumps({"event": "ready"}) + "\n")
    answers.flush()
    time.sleep(0.2)
elif fault.startswith("line "):
    os.write(spec["answers_fd"], fault.removeprefix("line ").encode("latin-1") + b"\n")
    time.sleep(20)
elif fault == "endless":
    while True:
        os.write(spec["answers_fd"], b"x" * 65536)
elif fault == "another answer":
    os.write(spec["answers_fd"], b'{"event": "ready"}\n{"event": "warm"}\n')
    time.sleep(20)
