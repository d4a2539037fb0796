"""What somebody may have meant by a name that is not known."""

import pytest

from kernelscope.tracer.outside import recipes
from kernelscope.tracer.outside.errors import UsageError
from kernelscope.tracer.outside.suggestions import meant


def test_the_nearest_known_name_is_asked_for() -> None:
    assert meant("conv11", ["fc", "conv1"]) == "; did you mean conv1?"
    assert meant("zzz", ["fc"]) == ""


def test_an_unknown_framework_is_answered_with_what_may_be_meant() -> None:
    with pytest.raises(UsageError, match=r"^unknown framework 'pytroch'; known: pytorch, .*; did you mean pytorch\?$"):
        recipes.check_known("pytroch")
