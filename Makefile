# `make` alone lists the targets. Every target does its own set-up.

PYTHON ?= python3
# Workers of pytest-xdist. Tests wait for servers and leases most of the time: four kept two cores busy for
# three quarters of it. A few tests start sooner without them.
JOBS ?= $(if $(ARGS),0,5)
# The tests of the long tier wait longer.
LONG_JOBS ?= $(if $(ARGS),0,6)
VENV := .venv
BIN := $(VENV)/bin
PINS := constraints/pins.txt
# RETRIES=5 runs up to five failed tests once more, by themselves, as CI does.
RETRIES ?=
PYTEST := $(if $(RETRIES),tools/retry.sh $(RETRIES)) $(BIN)/python -m pytest -q --dist worksteal

# The tests start some thousands of processes; compiled modules halve the time of each.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo example-profiles example-registries example-news example-listings example-social test test-long test-alone test-full quick check fix lint types imports docs bench bench-queue bench-crawl bench-hardship bench-kills bench-browser bench-fleet bench-haul chaos fuzz histories nights soak complete mutations dist image-test setup servers pins clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/ready ## Scrape the bundled shops with four workers, and show the results
	@$(BIN)/shoal demo $(ARGS)

example-listings: setup ## Run the example of listings by state on SQLite and PostgreSQL, and compare its output
	@$(BIN)/python -m examples.listings.run

example-profiles: setup ## Run the example of profiles in stages on SQLite and PostgreSQL, and compare its output
	@$(BIN)/python -m examples.profiles.run

example-registries: setup ## Run the example of six drug registries on SQLite and PostgreSQL; URLS=50000 is how many pages one of them has
	@URLS=$(URLS) $(BIN)/python -m examples.registries.run

example-news: setup ## Run the example of news from sitemaps on SQLite and RabbitMQ, and compare its output
	@$(BIN)/python -m examples.news.run

example-social: setup ## Run the example of a social network's tasks on SQLite and Redis, and compare its output
	@$(BIN)/python -m examples.social.run

# Every promise on every backend, the parts of it that wait in parallel.
test: setup ## Run the tests against real servers; ARGS='-k claim' narrows it
	$(PYTEST) -n $(JOBS) -m 'not long and not alone and not full' $(ARGS)

# One collection, one start of every server, and no worker that is idle while the last short tests run.
test-long: setup ## Run these and the longer tests: random histories, races, storms, the rest of each matrix
	$(PYTEST) -n $(LONG_JOBS) -m 'not alone and not full' $(ARGS)

# To collect all tests takes 10 s, and few files have one of these.
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)
test-alone: setup ## Run the tests that measure time or need both cores, one at a time
	$(PYTEST) -m 'alone and not full' $(or $(ARGS),$(ALONE)) || [ $$? -eq 5 ]

test-full: setup ## Run what is tested before a release only: the whole conformance suite on all stores, the image
	@tools/servers.sh $(IMAGE_TOOLS)
	SHOAL_TEST_BACKENDS='valkey rabbitmq pgbouncer redis-cluster' $(PYTEST) -n $(JOBS) tests/conformance
	$(PYTEST) -m full $(ARGS)

# Without those that read the whole tree or start a process for each test; `make test` runs them.
NOT_QUICK := $(addprefix --ignore=tests/unit/,docs tools suite deploy)
quick: $(VENV)/installed ## Run the unit tests and the queue's promises on SQLite: the loop of daily work
	SHOAL_TEST_BACKENDS=sqlite SHOAL_EXAMPLES=8 \
		$(PYTEST) -n 4 -m 'not long and not alone and not full' $(NOT_QUICK) $(ARGS) tests/unit tests/conformance

# Types are checked beside the tests, which wait much of the time. Errors in them are printed at once, and fail the
# target after the tests.
check: lint imports setup ## Lint, import contracts, types and all tests: what CI runs
	@$(MAKE) --no-print-directory types & types=$$!; \
		$(MAKE) --no-print-directory test-long; tests=$$?; \
		wait $$types && exit $$tests
	@$(MAKE) --no-print-directory test-alone

fix: $(VENV)/installed ## Format the code and repair what ruff can
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

lint: $(VENV)/installed ## Check style and format
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

types: $(VENV)/installed ## Check types
	$(BIN)/python -m mypy src tests/servers $(wildcard tools/*.py) tools/chaos tools/histories tools/complete

imports: $(VENV)/installed ## Check who may import whom
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/installed-docs ## Build the documentation into site/, strictly and offline
	$(BIN)/python -m sphinx -q -E -W --keep-going -d build/docs -b html docs site
	$(BIN)/python -m tools.check_site site
	@echo "The documentation is at site/index.html"

bench: ## Measure Shoal beside its peers: crawling, kills, the queue, the browser
	@$(MAKE) --no-print-directory bench-crawl
	@$(MAKE) --no-print-directory bench-kills
	@$(MAKE) --no-print-directory bench-queue
	@$(MAKE) --no-print-directory bench-browser

bench-queue: setup $(VENV)/installed-bench ## Measure the queue beside its peers
	PYTHONPATH=. $(BIN)/python tools/bench_queue.py $(ARGS)

bench-crawl: setup ## Measure crawling beside Scrapy and Crawlee; ARGS=--quick
	@tools/servers.sh wrk
	PYTHONPATH=. $(BIN)/python tools/bench_crawl.py $(ARGS)

bench-hardship: setup ## Measure slow hosts, killed workers, many workers and the pace of hosts; ARGS='--only pace'
	PYTHONPATH=. $(BIN)/python tools/bench_hardship.py $(ARGS)

bench-kills: setup ## Kill crawls of Shoal and its peers 20 times, and count what is lost and doubled; ARGS='--kills 5'
	PYTHONPATH=. $(BIN)/python -m tools.bench_kills $(ARGS)

bench-browser: setup $(VENV)/installed-bench ## Measure the browser beside Playwright; ARGS='--concurrency 4'
	$(BIN)/python -m tools.bench_browser $(ARGS)

bench-fleet: setup ## Measure what thousands of workers cost a server; ARGS=--quick
	PYTHONPATH=. $(BIN)/python tools/bench_fleet.py $(ARGS)

bench-haul: setup ## Measure a queue after millions of tasks; ARGS='--tasks 300000'
	PYTHONPATH=. $(BIN)/python tools/bench_haul.py $(ARGS)

chaos: setup ## Break the processes of a crawl while it goes on, and judge what became of it; ARGS='--queue redis'
	PYTHONPATH=. $(BIN)/python -m tools.chaos $(ARGS)

histories: setup ## Let many clients work on one store in random ways, and judge what it told them; ARGS='--queue redis-cluster'
	PYTHONPATH=. $(BIN)/python -m tools.histories $(ARGS)

fuzz: $(VENV)/installed ## Read 500,000 mutated pages with every extractor, in processes of their own; ARGS='--pages 20000'
	$(BIN)/python -m tools.fuzz $(ARGS)

nights: setup ## Scrape a shop that changes from night to night, and see what the runs say; ARGS='changes', 'ordinary' or 'revisits'
	PYTHONPATH=. $(BIN)/python -m tools.nights $(or $(ARGS),changes)

soak: setup ## Let a simulated fleet work on PostgreSQL for two hours, and see which tables grow; ARGS='--minutes 10'
	PYTHONPATH=. $(BIN)/python -m tools.soak $(ARGS)

dist: $(VENV)/installed ## Build the packages into dist/, check them, and install the wheel with each extra; ARGS=--build-only
	$(BIN)/python -m tools.dist $(ARGS)

SITES := postgresql-doc-15 python3.11-doc cmake-doc sqlite3-doc apache2-doc git-doc
complete: setup ## Crawl real documentation on every queue, and compare with all that can be reached; ARGS=--endless
	@tools/servers.sh $(SITES)
	PYTHONPATH=. $(BIN)/python -m tools.complete $(ARGS)

mutations: setup ## Break one guarantee at a time in a copy, and see whether the tests notice; ARGS='--only NAME' or --list
	$(BIN)/python -m tools.mutations $(ARGS)

IMAGE_TOOLS := buildah debootstrap
image-test: setup ## Build the image of a project without an engine, and run a fleet from it; as root, with 3 GB of disk
	@tools/servers.sh $(IMAGE_TOOLS)
	$(PYTEST) -m full tests/integration/deploy/test_image.py $(ARGS)

setup: $(VENV)/installed servers ## Make .venv, and install the servers that are missing

servers:
	@tools/servers.sh

pins: $(VENV)/installed ## Take the newest versions that fit into constraints/
	$(BIN)/python -m pip install -q uv
	$(BIN)/python -m uv pip compile -q --upgrade --universal --python-version 3.11 --no-header --no-annotate \
		--extra dev --extra docs --extra bench --output-file $(PINS) pyproject.toml

clean: ## Remove .venv, caches and builds
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -exec rm -rf {} +

# Shoal alone, for those who want to see it work.
$(VENV)/ready: pyproject.toml $(PINS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: Shoal needs Python 3.11 or newer. Run: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || tools/servers.sh python3-venv
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c $(PINS) -e .
	@touch $@

$(VENV)/installed: $(VENV)/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c $(PINS) -e '.[dev]'
	@touch $@

$(VENV)/installed-docs: $(VENV)/ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c $(PINS) -e '.[docs]'
	@touch $@

$(VENV)/installed-bench: $(VENV)/installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -c $(PINS) -e '.[bench]'
	@touch $@
