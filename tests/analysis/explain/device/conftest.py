"""What tests of totals share."""

import pytest

import kernelscope as ks
from tests.analysis.printed_totals import text_of


@pytest.fixture
def explained(tmp_path):
    """Explain totals of two sides, given as (name, executions, ms) of their kernels."""

    def run(*sides):
        paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
        for path, work in zip(paths, sides, strict=True):
            path.write_text(text_of(work))
        return ks.explain(*paths)

    return run
