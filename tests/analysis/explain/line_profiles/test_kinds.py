"""What a line does, by its text: names that only resemble one of the table's, comments and strings are none of it."""

import pytest

from kernelscope.analysis.explain.line_profiles import kinds

MANY, LONG = 100_000, 100_000 * 1_000_000


def name(text, hits=MANY, time_ns=LONG):
    kind = kinds.kind_of(text, hits, time_ns)
    return kind and kind.name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for batch_idx, (data, target) in enumerate(train_loader):", "data loader"),
        ("x, y = next(self.loader)", "data loader"),
        ("time.sleep(.1)", "sleep"),
        ("sleep(1)", "sleep"),
        ("response = requests.get('https://example.org/#top')", "network"),
        ("self.provider.swift.head_container(name)", "network"),
        ("cursor.execute(f'SELECT {x}')", "database"),
        ("for index, row in df.iterrows():", "rows of a table"),
        ("df.loc[i, 'x'] = 3", "rows of a table"),
        ("df = df.append(row)", "growing a table"),
        ("with open(path) as file:", "files"),
        ("image = cv2.imread(path)", "files"),
        ("pattern = re.compile('a#b')", "regular expressions"),
        ("state = copy.deepcopy(state)", "copies"),
        ("print('time.sleep(1)')", "output"),
        ("LOG.info('x')", "output"),
        ("text += 'abc'", "text"),
        ("text = text + str(x)", "text"),
        ("total += loss.item()", "waiting for the device"),
        ("torch.cuda.synchronize()", "waiting for the device"),
        ("output = self.model(data)", "framework"),
        ("loss.backward()", "framework"),
        ("optimizer.step()", "framework"),
    ],
)
def test_what_a_line_does(text, expected):
    assert name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sleeping(1)", "self.sleep(1)", "x = 1  # time.sleep(1)", "x = 'time.sleep(1)'", "def sleep():", "from time import sleep",
        "'requests.get(url)'", "my_requests.get(url)", "return self.get(name)", "objects = gc.get_objects()",
        "executor.execute(job)", 'x = """cursor.execute(1)"""', "reopen(path)", "fd.open()",
        "blueprint(x)", "catalog.info()",
        "total += 5", "x += y[0]", "re.compiled(x)", "values = d.items()", "widget(x)", "subnet(x)", "model.train()",
        "scheduler.step()", "for name in uploaders:", "", None,
    ],
)  # fmt: skip
def test_what_only_looks_alike_is_nothing(text):
    assert name(text) is None


def test_a_line_must_execute_often_or_take_long():
    assert name("pattern = re.compile('a')", 1, 10**9) is None
    assert name("answer = requests.get(url)", 10, 10 * 5_000) is None  # 5 us: no server answers that soon
    assert kinds.short(MANY, MANY * 300, "a.py") is kinds.ELEMENTS
    assert kinds.short(MANY, MANY * 300, "a.pyx") is kinds.COMPILED
    assert kinds.short(MANY, MANY * 30_000, "a.py") is None
    assert kinds.short(100, 100 * 300, "a.py") is None


def test_statements_go_on_while_a_bracket_is_open():
    lines = [(3, "x = f("), (4, "'('  # )"), (5, ")"), (6, "y = 1"), (7, "z = g("), (9, "return z")]
    assert kinds.beginnings(lines) == [0, 0, 0, 3, 4, 5]
