"""Run by the interpreter before a script that is profiled: its folder is first on PYTHONPATH. Any Python must be able to read it.

It takes itself out of the way first: the script's sys.path is as without it, and a sitecustomize of the user's own, or none, is
what stays. PYTHONPATH is kept in the environment, for interpreters that the script starts.
"""

import os
import sys


def _make_way(here):
    # type: (str) -> str
    """Take this folder off the path; return the path of the module that goes on from here."""
    sys.path[:] = [folder for folder in sys.path if not folder or os.path.abspath(folder) != here]
    sys.path_importer_cache.pop(here, None)
    return os.path.join(os.path.dirname(here), "start.py")


def _start(path):
    # type: (str) -> None
    """Watch imports; whatever goes wrong is written down, never raised into the script."""
    if sys.version_info < (3, 6) or not os.environ.get("KERNELSCOPE_PROFILE"):
        return
    try:
        with open(path) as file:
            code = compile(file.read(), path, "exec")
        namespace = {"__name__": "kernelscope.tracer.inside.profiling.start", "__file__": path}
        exec(code, namespace)  # noqa: S102  our own file, without a trace of it on sys.path or in sys.modules
        namespace["main"]()  # type: ignore[operator]
    except Exception as error:
        try:
            with open(os.environ["KERNELSCOPE_PROFILE"] + ".failed", "a") as out:
                out.write("%s: %s\n" % (type(error).__name__, error))
        except (OSError, IOError):
            pass


_start(_make_way(os.path.dirname(os.path.abspath(__file__))))
sys.modules.pop("sitecustomize", None)
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401, I001  the user's own; where there is none, site expects the ImportError that this raises
