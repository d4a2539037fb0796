"""Run by the interpreter before a profiled script: its folder is first on PYTHONPATH. Any Python must be able to read it.

It first removes itself: the script's sys.path is as it would be without us, and the user's own sitecustomize, or none, remains.
PYTHONPATH stays in the environment, for interpreters that the script starts.
"""

import os
import sys


def _make_way(here):
    # type: (str) -> str
    """Remove this folder from the path; return the path of the module that continues from here."""
    sys.path[:] = [folder for folder in sys.path if not folder or os.path.abspath(folder) != here]
    sys.path_importer_cache.pop(here, None)
    return os.path.join(os.path.dirname(here), "start.py")


def _start(path):
    # type: (str) -> None
    """Watch imports; log whatever goes wrong and never raise it into the script."""
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
