"""Where tests find things: ROOT is the project's folder; captures of others lie in shared/corpus beside it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def corpus(name):
    """Return a capture of others by its place in shared/corpus; skip the test where it is absent."""
    path = ROOT.parent / "shared" / "corpus" / name
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    return path
