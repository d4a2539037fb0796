"""Count the kinds of secrets that are found, beside detect-secrets (`pip install detect-secrets`), whose rules could be taken.

    python tests/tools/faults/kinds_of_secrets.py

The kinds are those of tests/analysis/secrets/test_kinds.py, each made at random once; harmless texts are its, too.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from kernelscope.tracer.inside.secret_values import spans
from tests.analysis.secrets.test_kinds import HARMLESS, KINDS


def peer() -> Callable[[str], bool] | None:
    """Return whether detect-secrets finds something in a text, with all its plugins; None where it is not installed."""
    try:
        from detect_secrets.core.scan import scan_file
        from detect_secrets.settings import default_settings
    except ImportError:
        return None

    def found(text: str) -> bool:
        with tempfile.TemporaryDirectory() as folder, default_settings():
            path = Path(folder, "text.txt")
            path.write_text(text + "\n")
            return any(True for _ in scan_file(str(path)))

    return found


def main() -> None:
    """Print a line for each."""
    for name, finds in (("kernelscope", lambda text: bool(spans(text.encode()))), ("detect-secrets", peer())):
        if finds is None:
            print(f"{name}: not installed")
            continue
        hits, alarms = sum(map(finds, KINDS.values())), sum(map(finds, HARMLESS))
        print(f"{name}: {hits} of {len(KINDS)} kinds found, {alarms} false alarms in {len(HARMLESS)} harmless texts")


if __name__ == "__main__":
    main()
