# Weir's commands. `make` alone prints them.
#
# Each command sets up what it needs, once: the environment in .venv, everything else under build/.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# The first supported Python that starts. A name of pyenv's may start nothing.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && break; \
	done; echo $$python)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

PACKAGE_VERSION := $(BIN)/python -c 'import sys, importlib.metadata as m; print(m.version(sys.argv[1]))'

# Stamps: remade when what they were made from changes.
READY := .venv/.ready
READY_DEV := .venv/.ready-dev

# A short way to run only what needs no other program: make test-fast.
FAST := not long and not flink and not prometheus and not browser and not kubernetes_api and not helm and not cluster

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: env
env: $(READY_DEV) kernels ## Create .venv with everything to run, check and test Weir

# A function whose sources have changed since is compiled when it is first called.
.PHONY: kernels
kernels: $(READY) ## Compile what policies compute with, so that no first run has to wait for it
	$(BIN)/python scripts/compile_kernels.py

.PHONY: wheel
wheel: kernels jars ## Build the package's wheel into dist, with Weir's jars and what policies compute with
	mkdir -p operator/weir_operator/flink/built
	cp build/jars/weir-agent.jar build/jars/weir-programs.jar operator/weir_operator/flink/built
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

.PHONY: jars
jars: $(READY) ## Compile the Java agent, the Java helper and the example jobs
	scripts/require java maven
	$(BIN)/python -m weir_operator.flink.jars
	$(BIN)/python -m weir_operator.flink.agent

# Real mornings and nights where the traces lie beside the project, else made-up ones.
TAXI := ../shared/traces/taxi.txt

# Cut a trace from a minute on, of the real traffic or of the made-up:
# $(call taxi,REAL,MADE-UP,MINUTES,A LINE,MOST)
define taxi
	mkdir -p build/demo
	if [ -f $(TAXI) ]; then \
		$(BIN)/weir traces cut $(TAXI) build/demo/minutes.txt --start $(1) --slots $(3); \
	else \
		$(BIN)/weir traces synth taxi build/demo/week.txt --slots 10080 --seed 5; \
		$(BIN)/weir traces cut build/demo/week.txt build/demo/minutes.txt --start $(2) --slots $(3); \
	fi
	$(BIN)/weir traces compress build/demo/minutes.txt build/demo/lines.txt --slots $(4)
	$(BIN)/weir traces scale build/demo/lines.txt $@ --max $(5)
endef

build/demo/morning.txt: $(READY)
	$(call taxi,11850,215,120,2,90)

# The benchmarks' night.
build/demo/trace.txt: $(READY)
	$(call taxi,14100,1140,960,15,70)

.PHONY: demo
demo: jars kernels build/demo/morning.txt ## Scale a real Flink job through a morning of taxi trips; report in build/demo
	rm -rf build/demo/out
	$(BIN)/weir local examples/trips/morning.yaml --duration 285s --fresh --state build/demo/state \
		--job-args "--trace $(CURDIR)/build/demo/morning.txt --out $(CURDIR)/build/demo/out" \
		--ledger build/demo/out --report build/demo/report.html --summary build/demo/summary.json

# Two processes: files go to whichever is free, in their order. A third one is no faster on two cores,
# and JVMs then start too slowly. ARGS="-n 0" runs all in one.
PROCESSES := 2
PARALLEL := -n $(PROCESSES) --dist loadgroup --no-loadscope-reorder

.PHONY: test
test: $(READY_DEV) jars kernels ## Run the tests, those on real Flink too (ARGS="-k journal -x" goes to pytest)
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

.PHONY: test-all
test-all: $(READY_DEV) jars kernels ## Run the long tests too: more jobs, more versions of Flink, before a release
	$(BIN)/python -m pytest $(PARALLEL) -m "not cluster and not pyflink" $(ARGS)

.PHONY: test-fast
test-fast: $(READY_DEV) ## Run the tests that start neither Flink, Prometheus, Kubernetes nor a browser
	$(BIN)/python -m pytest $(PARALLEL) -m "$(FAST)" $(ARGS)

# Beside the version that Weir brings. `make test` uses that, and `make test-all` the oldest of these
# for a DataStream job and a SQL script.
VERSIONS ?= 1.20.5 2.0.2 2.1.3 2.2.0

.PHONY: versions
versions: $(READY_DEV) jars ## Run unmodified jobs and the tests of the agent on other versions of Flink (VERSIONS="1.20.5 2.0.2")
	scripts/versions $(VERSIONS)

# PyFlink brings 800 MB of libraries, in versions that Weir's own environment does not have.
build/pyflink/.ready: constraints.txt | $(READY)
	"$(PYTHON)" -m venv build/pyflink
	build/pyflink/bin/pip install --quiet --disable-pip-version-check \
		"apache-flink==$$($(PACKAGE_VERSION) apache-flink-libraries)"
	touch $@

.PHONY: pyflink
pyflink: $(READY_DEV) jars build/pyflink/.ready ## Run the tests of PyFlink programs
	$(BIN)/python -m pytest -n 0 -m pyflink tests/e2e $(ARGS)

.PHONY: e2e
e2e: $(READY_DEV) jars ## Run five stories on the cluster that KUBECONFIG names
	$(BIN)/python -m pytest $(PARALLEL) -m "cluster and not long" tests/cluster $(ARGS)

.PHONY: e2e-all
e2e-all: $(READY_DEV) jars ## Run all tests that need a cluster: the one that KUBECONFIG names
	$(BIN)/python -m pytest $(PARALLEL) -m cluster tests/cluster $(ARGS)

# Builds an image; its name, the context and options follow.
IMAGE_BUILD ?= docker build -t

.PHONY: images
images: jars ## Build the images weir:dev and trips:dev (IMAGE_BUILD="docker build -t")
	$(IMAGE_BUILD) weir:dev . --target controller
	$(IMAGE_BUILD) trips:dev . -f examples/trips/Dockerfile

.PHONY: check
check: $(READY_DEV) ## Lint, format, types, layers, the site's links, and whether what is generated is fresh
	$(MAKE) --jobs=2 --output-sync check-style check-mypy check-pyright check-generated docs

check-style: $(READY_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
check-mypy: $(READY_DEV)
	$(BIN)/mypy
check-pyright: $(READY_DEV)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pyright
check-generated: $(READY_DEV)
	$(BIN)/weir crd --check
	$(BIN)/python scripts/chart.py --check
	$(BIN)/python -m dashboards --check
	$(BIN)/python scripts/references.py --check
	$(BIN)/python -m benchmarks.pages --check

.PHONY: docs
docs: $(READY_DEV) ## Build the site of the documentation into build/site, strict about its links
	$(BIN)/sphinx-build -W --keep-going --nitpicky --quiet -c docs -d build/doctrees . build/site

# Policies of others, in a package of their own, so that only benchmarks find them.
RIVALS := build/rivals

$(RIVALS)/.ready: examples/rivals/pyproject.toml $(wildcard examples/rivals/weir_rivals/*.py) | $(READY_DEV)
	rm -rf $(RIVALS)
	$(PIP) --no-deps --target $(RIVALS) ./examples/rivals
	touch $@

.PHONY: bench
bench: $(READY_DEV) $(if $(NAME),jars $(RIVALS)/.ready) ## Produce the project's figures: NAME=x runs x, without it the names are listed
	PYTHONPATH="$(CURDIR)/$(RIVALS)" $(BIN)/python -m benchmarks $(NAME)

.PHONY: verify-results
verify-results: $(READY_DEV) $(RIVALS)/.ready ## Run the deterministic benchmarks again and compare them with what is kept (NAME=x runs x)
	PYTHONPATH="$(CURDIR)/$(RIVALS)" $(BIN)/python -m benchmarks.verify $(NAME)

.PHONY: crds
crds: $(READY) ## Write crds/ again from the pydantic models, the chart's copy and the reference
	$(BIN)/weir crd
	$(BIN)/python scripts/chart.py
	$(BIN)/python scripts/references.py

.PHONY: names
names: $(READY_DEV) ## Write the names that Flink's keys have, in all versions that Weir runs
	scripts/flink $(VERSIONS)
	$(BIN)/python scripts/flink_names.py $(VERSIONS:%=build/flink/%)
	$(BIN)/python scripts/flink_names.py

.PHONY: references
references: $(READY) ## Write the reference pages of the StreamApp and the command
	$(BIN)/python scripts/references.py

.PHONY: pages
pages: $(READY_DEV) ## Write docs/evidence.md and docs/results from the results of the benchmarks
	$(BIN)/python -m benchmarks.pages

.PHONY: chart
chart: $(READY) ## Write what the chart takes from crds/ and from its values
	$(BIN)/python scripts/chart.py

.PHONY: dashboards
dashboards: $(READY_DEV) ## Write the Grafana dashboards of the chart
	$(BIN)/python -m dashboards

.PHONY: clean
clean: ## Remove what was built; .venv and the state of running apps (.weir) stay
	rm -rf build dist policies/weir_policies/kernels/built .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	scripts/require "python=$(PYTHON)" java $(if $(filter-out env kernels wheel check docs,$(MAKECMDGOALS)),maven)
	[ -x $(BIN)/python ] || "$(PYTHON)" -m venv .venv
	$(PIP) -e '.[flink]'
	touch $@

$(READY_DEV): $(READY)
	$(PIP) -e '.[flink,tune,spark,dev]'
	touch $@
