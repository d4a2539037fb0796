"""Each piece of advice has a page of documentation, or a reason why it has none."""

import ast
import functools
from dataclasses import replace
from pathlib import Path

import pytest

from kernelscope.analysis import advise as advising
from kernelscope.analysis.advise import documentation, rules
from tests.analysis.advise.test_host import on_cores
from tests.places import corpus

advise = functools.cache(advising.advise)
LINK = 6  # its place among the arguments of Advice


def calls():
    """Each Advice that a rule makes: its module, topic and link, as far as the source tells them."""
    for path in sorted(Path(rules.__file__).parent.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf8"))
        names = {
            one.targets[0].id: one.value.value
            for one in tree.body
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and isinstance(one.value, ast.Constant)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Advice":
                topic, *rest = call.args
                named = topic.value if isinstance(topic, ast.Constant) else names.get(getattr(topic, "id", ""))
                link = rest[LINK - 1] if len(rest) >= LINK else None
                own = (isinstance(link, ast.Constant) and link.value) or getattr(link, "id", "") == "_LINK"
                yield path.name, named, bool(own)


def test_each_topic_has_pages_or_a_reason():
    missing = [
        (module, topic)
        for module, topic, own in calls()
        if topic and not own and not {topic} & {*documentation.PAGES, *documentation.WITHOUT}
    ]
    assert missing == []
    assert len(list(calls())) > 60


def test_pages_are_addresses():
    pages = {page for pages in documentation.PAGES.values() for page in pages.values() if page}
    assert all(page.startswith("https://") and " " not in page for page in pages)


@pytest.mark.parametrize(
    "name",
    [
        "kineto/AMD-AGI__TraceLens__h100_timesformer.json.gz",
        "kineto/AMD-AGI__TraceLens__mi300_resnet_act_checkpoint.json.gz",
        "nsys/hpcgroup__pipit__perlmutter-cloverleaf-cuda.sqlite",
    ],
)
def test_advice_on_recordings_has_links(name):
    result = advise(corpus(name))
    assert result["advice"]
    assert [one["topic"] for one in result["advice"] if not one["link"] and one["topic"] not in documentation.WITHOUT] == []
    if result["device"].startswith("rocm"):
        assert not any("nvidia" in one["link"] for one in result["advice"])


def test_processors_are_not_told_of_nvidias_pages():
    subject = on_cores(0.1)
    assert documentation.page(subject, "threads") == "https://docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html"
    assert documentation.page(subject, "alignment") is None
    assert documentation.page(replace(subject, device="cuda:0"), "alignment")
    assert documentation.page(replace(subject, device="rocm:0"), "alignment") == documentation.PAGES["alignment"]["on an AMD GPU"]
    assert documentation.page(subject, "no such topic") is None
