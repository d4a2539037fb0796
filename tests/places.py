"""Where tests find things: ROOT is the project's folder; captures of others lie in CORPUS beside it, which may be absent."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"


def corpus(name):
    """Return a capture of others by its place in CORPUS; skip the test where it is absent."""
    path = CORPUS / name
    if not path.exists():
        pytest.skip("needs ../shared/corpus")
    return path
