"""Where tests find things: ROOT is the project's folder; captures of others lie in shared/corpus beside it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
