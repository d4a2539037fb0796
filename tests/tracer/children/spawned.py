"""Scripts whose workers, started by multiprocessing, step before the main process does, if that steps at all."""

import multiprocessing
import os
import sys

import toy_adapter

toy_adapter.install()


def work(marked):
    from kernelscope.tracer import step

    for number in range(60):
        if marked:
            with step():
                pass
        else:
            toy_adapter.step(number)


def main(what):
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(what == "marked",))
    worker.start()
    worker.join()
    if what == "both":
        work(False)
    print("main", os.getpid())


if __name__ == "__main__":
    main(sys.argv[1])
