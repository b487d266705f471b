# Every target first creates the virtual environment that it needs, from the package registry that pip is configured for.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Versions: those of constraints.txt, or by VERSIONS=highest and VERSIONS=lowest-direct what pyproject.toml allows.
VERSIONS ?=
PINNED := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e
ALLOWED = .venv/bin/uv pip install --quiet --python $(BIN)/python --resolution $(VERSIONS) -e
INSTALL = $(if $(VERSIONS),$(ALLOWED),$(PINNED))
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
EXTRAS := local,neo4j-local,pandas,docs,dev

# every extra at once; LOTUS takes numpy below 2, so they have an environment of their own (7 GB: torch brings CUDA)
EVERY := local,neo4j-local,sentence-transformers,cross-encoder,lotus,minhash,measures,kmeans,leiden,pandas,dev
VENV_EXTRAS := .venv-extras

# graphiti-core, whose databases semgraph shares; and Ray
VENV_GRAPHITI := .venv-graphiti

# Palimpzest, beside which `semgraph tune` is measured
VENV_PALIMPZEST := .venv-palimpzest

# Pythons that the suite is run with, each at the newest versions allowed, and the oldest of them at the oldest too: make nightly
PYTHONS ?= 3.11 3.12 3.13
python = $(firstword $(wildcard $(HOME)/.pyenv/versions/$(1).*/bin/python$(1)) python$(1))

TRIED ?= not torch
KILLS ?= 20
HOSTILE ?= 60
SECONDS ?= 60
SEED ?=

.PHONY: demo fuzz kill soak nightly test test-extras test-graphiti test-newest test-ray check fmt recordings pages schemas docs bench bench-full bench-palimpzest bench-quick clean

# a knowledge graph from three chat messages, by a model on this machine (fetched once, 1.1 GB)
demo: $(VENV)/.demo
	$(BIN)/semgraph run plans/add_episode.yaml

# All but kills and soak, which have targets of their own. It starts a Neo4j server of its own. Four processes on two cores, because some tests wait. Tests stay in the
# order of their files, so that those on Neo4j, which run in one process, start early.
test: $(VENV)/.installed $(VENV)/.browser
	$(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder --ignore=tests/kill --ignore=tests/soak

# Kills runs at random moments and at named points, on both stores, and runs them again: make kill KILLS=200 SEED=7
kill: $(VENV)/.installed
	KILLS=$(KILLS) SEED=$(SEED) $(BIN)/python -m pytest -n 2 tests/kill

# Sessions under load, in odd surroundings, and for long; a server under attack for HOSTILE seconds.
soak: $(VENV)/.installed
	HOSTILE=$(HOSTILE) $(BIN)/python -m pytest -n 2 tests/soak

# Compares random plans with an independent evaluator, and the two executors of relational steps: make fuzz SECONDS=600; make fuzz SEED=12345 repeats a plan that failed.
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# What takes too long for every change: 3,000 random plans, the fuzzer over an engine with injected faults, property tests with new
# cases, what is marked `nightly` (scenarios on Neo4j that are tested on SQLite every time, memories
# without one of their parts, the site), four statements of two states in every order, the tests of the plans with both executors of relational steps, 200 kills, soak, and the benchmarks of the engine and of searches
# with their largest cases, graphiti-core beside (their lines and pages are left in .semgraph/nightly), every extra, and the suite without constraints.
nightly: $(VENV)/.installed $(VENV_GRAPHITI)/.installed
	$(BIN)/python -m tests.fuzz --plans 3000
	$(BIN)/python -m tests.fuzz.check_the_checker
	$(BIN)/python -m pytest -q --hypothesis-profile random $$(grep -rl "from hypothesis" tests --include="test_*.py")
	NIGHTLY=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup -m nightly
	STATEMENTS=4 $(BIN)/python -m pytest -q -n 2 tests/plans/test_timeline.py -k in_every_order
	SEMGRAPH_SEGMENTS=both $(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/plans -k "not neo4j"
	$(MAKE) kill KILLS=200
	$(MAKE) soak HOSTILE=600
	$(BIN)/python -m benchmarks run engine search --full --into .semgraph/nightly
	$(MAKE) test-newest TRIED=
	$(foreach one,$(PYTHONS),$(MAKE) test PYTHON=$(call python,$(one)) VENV=.venv-newest-$(one) VERSIONS=highest && ) true
	$(MAKE) test PYTHON=$(call python,$(firstword $(PYTHONS))) VENV=.venv-oldest VERSIONS=lowest-direct

# implementations that need extras, with every extra installed
test-extras: $(VENV_EXTRAS)/.installed
	$(VENV_EXTRAS)/bin/python -m pytest tests/extras --ignore-glob='*/test_graphiti_*'

# one database, two programs: semgraph and the real graphiti-core on a real Neo4j
test-graphiti: $(VENV_GRAPHITI)/.installed
	$(VENV_GRAPHITI)/bin/python -m pytest tests/extras/test_graphiti_*.py

# shards as tasks of Ray, on clusters of several nodes on this machine
test-ray: $(VENV_GRAPHITI)/.installed
	$(VENV_GRAPHITI)/bin/python -m pytest tests/on_ray

# the wheel without constraints: the newest versions allowed on each Python from 3.11 that is found here, the oldest on 3.11, each extra alone.
# TRIED= tries those that bring torch too (7 GB).
test-newest: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2 tests/on_pythons $(if $(TRIED),-k "$(TRIED)")

# formatting, rules, types, layers
check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# make the shipped recordings anew, with the local model
recordings: $(VENV)/.installed
	$(BIN)/python -m tools.recordings

# write the pages about the plans anew: docs/plans
pages: $(VENV)/.installed
	$(BIN)/python -m tools.pages

# write the schemas of plans and graphs anew: plans/schemas
schemas: $(VENV)/.installed
	$(BIN)/python -m tools.schemas

# the documentation site, in build/site; a broken link is an error
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# everything that is measured in minutes, and the pages made of it, graphiti-core and LOTUS beside: 22 minutes on two cores,
# besides installing those (7 GB, most of it torch); what is held already is not measured again
bench: $(VENV)/.installed $(VENV_EXTRAS)/.installed $(VENV_GRAPHITI)/.installed $(VENV_PALIMPZEST)/.installed
	$(BIN)/python -m benchmarks run

# what takes longer too
bench-full: $(VENV)/.installed $(VENV_EXTRAS)/.installed $(VENV_GRAPHITI)/.installed $(VENV_PALIMPZEST)/.installed
	$(BIN)/python -m benchmarks run --full

# searches beside those of Palimpzest
bench-palimpzest: $(VENV)/.installed $(VENV_PALIMPZEST)/.installed
	$(BIN)/python -m benchmarks run tune

# does it all run here? Four minutes; the results are left alone
bench-quick: $(VENV)/.installed
	$(BIN)/python -m benchmarks run --quick
	$(BIN)/python -m benchmarks check

# what the demo needs, unless all is here already
$(VENV)/.demo: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(VENV)/.installed || $(INSTALL) ".[local]"
	touch $@

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) ".[$(EXTRAS)]"
	touch $@ $(VENV)/.demo

# Chromium, from Debian's packages where it is missing
$(VENV)/.browser: $(VENV)/.installed
	command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  { $(ROOT) apt-get update -qq && $(ROOT) apt-get install -y -qq --no-install-recommends chromium; }
	touch $@

$(VENV_EXTRAS)/.installed: pyproject.toml constraints-extras.txt
	test -x $(VENV_EXTRAS)/bin/python || $(PYTHON) -m venv $(VENV_EXTRAS)
	$(VENV_EXTRAS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-extras.txt -e ".[$(EVERY)]"
	touch $@

# graphiti-core asks for a newer certifi than there may be, so it comes with what it imports, not with what it asks for
$(VENV_GRAPHITI)/.installed: pyproject.toml constraints.txt constraints-graphiti.txt
	test -x $(VENV_GRAPHITI)/bin/python || $(PYTHON) -m venv $(VENV_GRAPHITI)
	$(VENV_GRAPHITI)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[neo4j-local,ray,dev]"
	$(VENV_GRAPHITI)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r constraints-graphiti.txt
	touch $@

$(VENV_PALIMPZEST)/.installed: constraints-palimpzest.txt
	test -x $(VENV_PALIMPZEST)/bin/python || $(call python,3.12) -m venv $(VENV_PALIMPZEST)
	$(VENV_PALIMPZEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r constraints-palimpzest.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-newest-* .venv-oldest $(VENV_EXTRAS) $(VENV_GRAPHITI) $(VENV_PALIMPZEST) .semgraph .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
