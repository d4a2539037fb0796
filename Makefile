# Everything goes through the virtual environment in .venv, which `make` creates; framework environments go to the user's cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FRAMEWORKS := pytorch,tensorflow,mxnet,cntk
EXPERIMENTS := thesis shi2016 eleven keras_backends abstraction today
MORE := jax,keras-torch,onednn,onnxruntime
OLDER := chainer

.DEFAULT_GOAL := help
.PHONY: help demo pictures dist docs environments test test-all test-fast lint bench planted pairs altered ranks scripts confirm sweeps foreign fuzz guided killed licences vulnerabilities hashes gpu-check clean

help: ## show what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | sort | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.installed: setup.py pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kernelscope needs Python 3.11 or later; say make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed ## train LeNet-5 in four frameworks and compare them (sets up what it needs; DEMO: options)
	-$(BIN)/kernelscope env create $(subst $(comma), ,$(FRAMEWORKS))
	$(BIN)/kernelscope compare lenet -f $(FRAMEWORKS) --skip-missing --force -o out/demo $(DEMO)

pictures: $(VENV)/.installed ## draw the pictures in docs that show the comparison of `make demo`
	$(BIN)/python tests/tools/pictures.py out/demo

dist: $(VENV)/.installed ## build the source distribution and the wheel into dist
	rm -rf dist && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 1700000000) $(BIN)/python -m build --outdir dist

docs: $(VENV)/.installed ## build the documentation site into out/site, which opens from the disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

environments: $(VENV)/.installed ## set up the frameworks that tests and measurements use
	-$(BIN)/kernelscope env create $(subst $(comma), ,$(FRAMEWORKS) $(MORE))

test: $(VENV)/.installed lint environments ## run all tests, with real frameworks (sets up what it needs)
	$(BIN)/python -m pytest -m 'not long' -n 2 --dist loadfile --no-loadscope-reorder --durations 40 --junit-xml out/tests.xml

test-all: $(VENV)/.installed lint environments ## run what repeats at length what other tests show, too
	-$(BIN)/kernelscope env create $(OLDER)
	$(BIN)/python -m pytest -m '' -n 2 --dist loadfile --no-loadscope-reorder

test-fast: $(VENV)/.installed ## run the tests that need no framework
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.installed ## check style, types, layering and the Python 3.6 parts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd typing && ../$(BIN)/lint-imports --config ../pyproject.toml
	$(BIN)/python tests/python36.py

bench: $(VENV)/.installed ## measure what measuring and reading cost, as ratios (sets up what it compares with)
	@$(BIN)/python tests/tools/bench/overhead.py; first=$$?; $(BIN)/python tests/tools/bench/reading.py --install-peers && exit $$first

planted: $(VENV)/.installed environments ## plant known causes, and see whether they are found (sets up what it needs)
	@$(BIN)/python tests/tools/planted/run.py $(PLANTED); first=$$?; $(BIN)/python tests/tools/planted/run.py --same 20 $(PLANTED) && exit $$first

pairs: $(VENV)/.installed ## explain pairs of captures whose difference is known, and judge what is said (PAIRS: options)
	@$(BIN)/python tests/tools/pairs/run.py $(PAIRS)

altered: $(VENV)/.installed ## make real captures slower in known ways, and judge what is said of that (10 minutes; ALTERED: options)
	@$(BIN)/python tests/tools/pairs/altered.py $(ALTERED)

RANKS := ../shared/corpus/ranks/megatron_tp8
ranks: $(VENV)/.installed environments ## plant faults into jobs of 2 and 4 ranks, clone captures into many, and time reading beside HolisticTraceAnalysis (20 min)
	$(BIN)/python tests/tools/ranks/planted.py 2 4
	$(BIN)/python tests/tools/ranks/scale.py $(RANKS) 8 64 256
	$(BIN)/python tests/tools/ranks/reduce.py $(RANKS) 10000
	$(BIN)/python tests/tools/bench/reading.py --install-peers --only ranks

scripts: $(VENV)/.installed environments ## profile scripts, change them, and judge what is said of that (an hour; SCRIPTS: options)
	@$(BIN)/python tests/tools/scripts/run.py $(SCRIPTS)

confirm: $(VENV)/.installed environments ## try what advice and explanations say, and set what they claim against what is seen (2 hours; CONFIRM: options)
	@$(BIN)/python tests/tools/scripts/confirm.py $(CONFIRM)

sweeps: $(VENV)/.installed environments ## run the small form of every experiment of the literature, and draw its report (45 min on two cores)
	for name in $(EXPERIMENTS); do \
	    $(BIN)/kernelscope sweep $$name-small -o out/sweeps/$$name && $(BIN)/kernelscope report out/sweeps/$$name || exit $$?; \
	done

foreign: $(VENV)/.installed environments ## profile programs that nobody here wrote (fetches them and what they need; FOREIGN: options)
	$(BIN)/python tests/tools/foreign/run.py $(FOREIGN)

fuzz: $(VENV)/.installed ## damage captures at random and see that every reader says so in one line
	$(BIN)/python tests/tools/fuzz/run.py --seconds 80 --seed 1
	$(BIN)/python tests/tools/fuzz/folders.py --seconds 40 --seed 1

guided: $(VENV)/.installed ## fuzz readers as coverage leads (10 min; GUIDED: options)
	$(BIN)/pip install --quiet '.[fuzz]' && $(BIN)/python tests/tools/fuzz/guided.py --seconds 600 $(GUIDED)

killed: $(VENV)/.installed ## kill commands at random moments, and look at what they leave (20 min; KILLED: options)
	$(BIN)/python tests/tools/faults/killed.py $(KILLED)

licences: $(VENV)/.installed ## write docs/licences.md: what is installed and embedded, and under which licences
	$(VENV)/bin/python tests/tools/licences.py

vulnerabilities: $(VENV)/.installed ## ask PyPI which known vulnerabilities the packages have that are installed here and in environments
	$(VENV)/bin/python tests/tools/vulnerabilities.py

hashes: $(VENV)/.installed ## resolve the environments anew, and write workloads/*/*.hashes
	$(BIN)/pip install --quiet uv && $(BIN)/python tests/tools/hashes.py

gpu-check: $(VENV)/.installed ## run every check that needs a GPU, and write docs/gpu/<date>-<gpu>.md (GPU_CHECK: options)
	$(BIN)/python tests/tools/gpu/check.py $(GPU_CHECK)

clean: ## remove what was built here (environments: kernelscope env remove)
	rm -rf $(VENV) out build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

comma := ,
