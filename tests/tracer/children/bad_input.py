"""Scripts that do what no script should: the first argument says what, between steps of the toy framework."""

import io
import os
import shutil
import sys
import time

import toy_adapter

STEPS = 60


def crashes():
    run(STEPS)
    raise RuntimeError("the script's own fault")


def crashes_in_between():
    run(10)
    raise RuntimeError("the script's own fault")


def replaces_stdout():
    kept, sys.stdout = sys.stdout, io.StringIO()
    run(STEPS, lambda number: print("to nobody", number))
    text, sys.stdout = sys.stdout.getvalue(), kept
    print(len(text.splitlines()), "lines were kept")


def forks():
    def fork(number):
        if number % 5 == 0:
            child = os.fork()
            if child == 0:
                os.write(1, b"child of %d\n" % number)
                toy_adapter.step(number)
                os._exit(0)
            os.waitpid(child, 0)

    run(STEPS, fork)


def closes_descriptors():
    def close(number):
        if number == 9:  # in the kernels pass, when descriptor 1 is ours
            os.close(1)
            os.close(2)

    run(STEPS, close, quiet=True)


def closes_descriptors_first():
    os.close(1)
    os.close(2)
    run(STEPS, quiet=True)


def writes_much():
    block = b"x" * (1 << 20)
    run(STEPS, lambda number: [os.write(1, block) for _ in range(8)], quiet=True)


def writes_much_and_dies():
    def write(number):
        if toy_adapter.Adapter.current.verbose:
            for _ in range(20):
                os.write(1, b"y" * (1 << 20))
            os.kill(os.getpid(), 9)

    run(STEPS, write, quiet=True)


def changes_directory():
    os.chdir("/")
    run(STEPS)


def deletes_its_folder():
    folder = os.getcwd()
    run(2 * STEPS, lambda number: number == int(sys.argv[1]) and shutil.rmtree(folder))


def steps_on_a_thread():
    import threading

    thread = threading.Thread(target=run, args=(STEPS,))
    thread.start()
    thread.join()


def changes_what_is_traced():
    sys.settrace(lambda *_: None)
    run(STEPS)
    sys.settrace(None)


def run(count, before=lambda number: None, quiet=False):
    """Run as many steps, each after `before`; quiet: without what the toy's steps print."""
    for number in range(count):
        before(number)
        if quiet:
            time.sleep(0.001)
            toy_adapter.Adapter.current.recording.stepped(toy_adapter.Adapter.current, 1)
        else:
            toy_adapter.step(number)


if __name__ == "__main__":
    toy_adapter.install()
    globals()[sys.argv[-1]]()
