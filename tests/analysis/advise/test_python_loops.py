"""Advice on tables of cProfile in which one function of Python takes nearly all of the time by itself."""

import pytest

import kernelscope as ks

HEAD = "         9 function calls in {} seconds\n\n   Ordered by: internal time\n\n"
TITLES = "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n"


def advised(tmp_path, *rows):
    """Rows: calls, own and whole seconds, name."""
    whole = sum(own for _, own, _, _ in rows)
    lines = [f"{calls:9}{own:9.3f}{own / calls:9.3f}{both:9.3f}{both / calls:9.3f} {name}\n" for calls, own, both, name in rows]
    path = tmp_path / "profile.txt"
    path.write_text(HEAD.format(f"{whole:.3f}") + TITLES + "".join(lines))
    return ks.advise(path)


LOOP = (3, 9.0, 9.0, "/home/me/filters.py:6(to_gray)")
CAST = (3, 0.5, 0.5, "{method 'astype' of 'numpy.ndarray' objects}")


def loops(result):
    return [one for one in result["advice"] if one["topic"] == "python loop"]


def test_a_function_that_calls_nothing(tmp_path):
    result = advised(tmp_path, LOOP, CAST)
    (one,) = loops(result)
    assert (one["saves_ns"], one["at_most"]) == (9_000_000_000, True)
    assert "Numba" in one["remedy"]
    assert "cProfile does not tell" in one["evidence"][0]
    assert not any(note.startswith("most time in its own code") for note in result["notes"]), "it is told once"


@pytest.mark.parametrize(
    "rows",
    [
        [(3, 9.0, 9.0, "{built-in method numpy.core._multiarray_umath.c_einsum}"), CAST],
        [(3, 9.0, 9.0, "/home/me/filters.pyx:6(to_gray)"), CAST],  # compiled
        [(3000, 9.0, 9.0, "/home/me/filters.py:6(to_gray)"), CAST],  # short calls
        [(3, 9.0, 15.0, "/home/me/filters.py:6(to_gray)"), CAST],  # it calls others
        [LOOP, (3, 4.0, 4.0, "{method 'astype' of 'numpy.ndarray' objects}")],  # a smaller part
        [LOOP, (1, 0.5, 0.5, "/venv/numba/core/dispatcher.py:9(compile)")],
        [LOOP, (1, 0.5, 0.5, "{built-in method torch.conv2d}")],  # operators on tensors
    ],
)
def test_other_functions_are_no_loops(tmp_path, rows):
    assert not loops(advised(tmp_path, *rows))
