"""Other devices, and recorded differences that no family owns."""

import pytest

from kernelscope.analysis.explain.causes import configuration

ROWS = [
    ("conv1", "forward", "convolution forward", 1000, 1600),
    ("conv1", "forward", "(host: in operators)", 500, 400, False),
    ("(data)", "data", "(device: copy host to device)", 100, 300),
]


@pytest.fixture
def configured(make_case, make_side):
    def make(a, b, **keywords):
        return make_case(ROWS, make_side("plain", **a), make_side("changed", **b), **keywords)

    return make


def test_a_single_recorded_difference_is_the_root_of_everything(configured, suspected, swapped):
    made = configured(
        {"versions": {"numpy": "1"}, "settings": {"x": 1}},
        {"versions": {"numpy": "2"}, "settings": {"x": 1}},
        instrumentation_ns=50,
    )
    (found,) = suspected(configuration, made)
    assert found.claims == {"r1": 600, "r2": -100, "r3": 200, "(profiling overhead)": 50}
    assert (found.cause, found.precedence, found.confidence) == ("unequal configuration", 0, "high")
    assert "version of numpy: 1 for plain, 2 for changed" in found.evidence[0]
    (mirrored,) = suspected(configuration, swapped(made))
    assert mirrored.claims == {row: -ns for row, ns in found.claims.items()}
    assert "version of numpy: 2 for changed, 1 for plain" in mirrored.evidence[0]


def test_of_several_differences_none_is_the_root(configured, suspected):
    made = configured({"settings": {"x": 1, "y": 1}}, {"settings": {"x": 2, "y": 2}})
    (found,) = suspected(configuration, made)
    assert (found.precedence, found.confidence) == (2, "low")
    made = configured({"settings": {"x": 1, "threads": 1}}, {"settings": {"x": 2, "threads": 2}})
    assert [one.precedence for one in suspected(configuration, made)] == [2], "threads differ as well"


def test_a_variable_that_one_side_lacks_differs_but_verbosity_does_not(configured, suspected):
    made = configured({"variables": {"MKL_VERBOSE": "1"}}, {"variables": {"KMP_SETTINGS": "1"}})
    (found,) = suspected(configuration, made)
    assert "KMP_SETTINGS: (not set) for plain, 1 for changed" in found.evidence[0]
    assert "MKL_VERBOSE" not in found.title


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({}, {}),
        ({"settings": {"x": 1}}, {"settings": {"x": 1}}),
        ({"settings": {"x": 1}}, {"settings": {"x": None}}),
        ({"settings": {"x": 1}}, {}),
        ({"variables": {"KMP_SETTINGS": "1"}}, {}),
        ({"settings": {"threads": 1}}, {"settings": {"threads": 2}}),
        ({"settings": {"x": 1}}, {"settings": {"x": 2}, "framework": "mxnet"}),
        ({"options": {"repeats": 1}}, {"options": {"repeats": 2}}),
        ({"machine": {"processor": "X"}}, {"machine": {"processor": None}}),
    ],
)
def test_nothing_is_said_of_equal_unknown_or_owned_settings_and_of_other_frameworks(configured, suspected, a, b):
    assert suspected(configuration, configured(a, b)) == []


def test_other_devices_own_what_the_device_does(configured, suspected):
    gpus = [{"devices": [{"device": "cuda:0", "name": name}]} for name in ("A100", "H100")]
    (found,) = suspected(configuration, configured(*gpus))
    assert (found.cause, found.precedence) == ("different devices", 0)
    assert found.claims == {"r1": 600, "r3": 200}
    assert "A100" in found.title
    assert "H100" in found.title
    assert suspected(configuration, configured(gpus[0], gpus[0])) == []
    assert suspected(configuration, configured(gpus[0], {"devices": [{"device": "cuda:0"}]})) == [], "its name is not known"


def test_other_processors_own_everything(configured, suspected):
    made = configured({"machine": {"processor": "X", "threads": 2}}, {"machine": {"processor": "Y", "threads": 8}})
    (found,) = suspected(configuration, made)
    assert found.claims == {"r1": 600, "r2": -100, "r3": 200}
    assert "plain ran on X (2 threads), changed on Y (8 threads)" in found.evidence[0]


def test_what_else_came_with_a_setting_that_changes_kernels_is_left_to_it(configured, suspected):
    made = configured(
        {"settings": {"onednn": True}, "variables": {}},
        {"settings": {"onednn": False}, "variables": {"TF_ENABLE_ONEDNN_OPTS": "0"}},
    )
    (found,) = suspected(configuration, made)
    assert (found.precedence, found.confidence) == (2, "medium")
    assert found.claims == {"r1": 600, "r2": -100, "r3": 200}
    made = configured({"settings": {"onednn": True, "memory_format": "x"}}, {"settings": {"onednn": False, "memory_format": "y"}})
    assert suspected(configuration, made) == [], "it may be either"


@pytest.mark.parametrize(
    ("setting", "title"), [("providers", "providers differ"), ("bias", "bias differs"), ("class", "class differs")]
)
def test_a_plural_has_its_verb(configured, suspected, setting, title):
    (found,) = suspected(configuration, configured({"settings": {setting: 1}}, {"settings": {setting: 2}}))
    assert found.title == title
