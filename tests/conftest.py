"""What holds for all tests."""

import os

import pytest

# pytest-xdist tells its workers how wide the terminal is; what commands print into pipes must not depend on it
os.environ.pop("COLUMNS", None)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist writes groups into the tests' ids
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker do all that record frameworks, first and one after the other; the others take files as they come."""
    items.sort(key=lambda item: item.get_closest_marker("recording") is None)
    for item in items:
        recording = item.get_closest_marker("recording") is not None
        item.add_marker(pytest.mark.xdist_group("recording" if recording else item.nodeid.split("::")[0]))
