# Every target says what it does: `make` prints them.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# On a terminal pip shows how far it is. Python compiles what it imports: to compile everything takes a third of the time.
PIP    := $(BIN)/python -m pip install --no-compile --disable-pip-version-check $(shell [ -t 2 ] || echo --quiet)
UP     ?= --for 15s
W      ?= auto
MINUTES ?= 10
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.DEFAULT_GOAL := help
.PHONY: help up openstack libvirt test explore check types lint generate web man golden bench bench-check scale docs docs-serve size test-kube test-node test-kubelet image dist dist-check chart install-demo lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "corewise needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV) || \
	  { rm -f $(BIN)/python; echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# Install what requirement files ($1) list: say how many packages, how long it took, and how large it is.
define install
	@start=$$(date +%s); \
	echo "installing $$(cat $1 | grep -c '^[a-z].*==') packages into $(VENV); this takes a minute or two the first time" >&2; \
	$(PIP) --require-hashes $(addprefix -r ,$1) && \
	echo "installed in $$(($$(date +%s) - start)) s; $(VENV) takes $$(du -sm $(VENV) | cut -f1) MB" >&2
endef

P      := packages
VERSION  := $(P)/corewise/src/corewise/__init__.py
COMPILED := $(P)/corewise/hatch_build.py $(wildcard $(P)/corewise/src/corewise/kernel/*.c)
OURS   := $(PIP) --no-deps --no-build-isolation

# CEL is by itself: on a system that it has no wheel for (musl), everything else works, and says so.
NO_CEL := cel-expr-python has no wheel for this Python: the local cluster has no admission policies, and amplifies by webhook

$(VENV)/run.stamp: requirements/build.txt requirements/run.txt requirements/cel.txt $(P)/kubedouble/pyproject.toml $(P)/corewise/pyproject.toml \
  $(P)/corewise-lab/pyproject.toml $(COMPILED) $(VERSION) | $(BIN)/python
	$(call install,requirements/build.txt requirements/run.txt)
	@$(PIP) --require-hashes -r requirements/cel.txt 2>$(VENV)/cel.log || { \
	  grep -q 'No matching distribution' $(VENV)/cel.log && echo "$(NO_CEL)" >&2; } || \
	  { cat $(VENV)/cel.log >&2; exit 1; }
	$(OURS) --editable $(P)/kubedouble --editable $(P)/corewise --editable $(P)/corewise-lab
	@touch $@

$(VENV)/openstack.stamp: requirements/openstack.txt $(P)/corewise-openstack/pyproject.toml $(VENV)/run.stamp
	$(call install,requirements/openstack.txt)
	$(OURS) --editable $(P)/corewise-openstack
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/openstack.stamp
	$(call install,requirements/dev.txt)
	@touch $@

$(VENV)/libvirt.stamp: requirements/libvirt-build.txt requirements/libvirt.txt $(VENV)/run.stamp
	$(PIP) --require-hashes -r requirements/libvirt-build.txt
	$(PIP) --require-hashes --no-build-isolation -r requirements/libvirt.txt
	@touch $@

openstack: $(VENV)/openstack.stamp ## Install corewise compute and what it needs

libvirt: $(VENV)/libvirt.stamp ## Install libvirt's Python package (needs libvirt-dev, pkg-config and a C compiler)

up: $(VENV)/run.stamp ## Install what is needed and run the local cluster (UP="--for 60s --nodes 20")
	$(BIN)/corewise up $(UP)

test: $(VENV)/dev.stamp ## Run the tests on all CPUs (T="-k webhook" narrows them, W=0 runs one by one)
	$(BIN)/pytest -n $(W) --dist loadfile $(T)

explore: $(VENV)/dev.stamp ## Run all tests that draw inputs again and again with fresh seeds (MINUTES=10), or try every case (EXHAUSTIVE=1)
	$(BIN)/python -m tools.explore $(if $(EXHAUSTIVE),--exhaustive,--minutes $(MINUTES))

check: types lint ## Check all but the tests: types and lint (-j2 does both at once)

types: $(VENV)/dev.stamp ## Check the types
	$(BIN)/mypy

lint: $(VENV)/dev.stamp ## Lint, layer rules, generated files and the web page current, links and length of the docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.prose
	$(BIN)/python tools/generate.py --check
	$(BIN)/python -m tools.web check
	$(MKDOCS) build --strict

generate: $(VENV)/dev.stamp ## Write the files that are generated from the code
	$(BIN)/python tools/generate.py

web: $(VENV)/dev.stamp ## Build the web page from web/ (packages/corewise/src/corewise/web/assets)
	$(BIN)/python -m tools.web build

image: $(VENV)/dev.stamp ## Build the container image (BASE=debian where no registry can be reached; docs/operate/image.md)
	$(BIN)/python -m tools.image $(if $(BASE),--base $(BASE)) $(IMAGE)

dist: $(VENV)/dev.stamp ## Make all files of a release in dist/: sdists, wheels, chart, bill of materials, image, checksums (BASE= as for image)
	$(BIN)/python -m tools.dist $(if $(BASE),--base $(BASE)) $(IMAGE)

dist-check: $(VENV)/dev.stamp ## Use the files of dist/ without network and clone, with each Python here: some minutes (docs/internals/release.md)
	$(BIN)/python -m tools.dist_check

man: $(VENV)/run.stamp ## Write the man pages, one for each command, from the commands' help (packages/*/man)
	$(BIN)/python tools/generate.py --only packages/

golden: $(VENV)/dev.stamp ## Keep what commands and programs say now as what they have to say (tests/golden)
	COREWISE_GOLDEN=write $(BIN)/pytest -q tests/golden

bench: $(VENV)/dev.stamp ## Measure, and write docs/benchmarks; or compare ten figures with a commit (COMPARE=REV): ten minutes
	$(BIN)/python -m tools.bench $(if $(COMPARE),--compare $(COMPARE))

bench-check: $(VENV)/dev.stamp ## Compare them, and fail if one is more than 10 % larger (COMPARE=REV; default: the last release)
	@$(BIN)/python -m tools.bench --check $(if $(COMPARE),--compare $(COMPARE))

scale: $(VENV)/dev.stamp ## Run manager and scheduler on a cluster of N nodes and PODS pods, and measure them (N=1000; SOAK=60m)
	@$(BIN)/python -m experiments.scale --nodes $(or $(N),1000) $(if $(PODS),--pods $(PODS)) $(if $(SOAK),--soak $(SOAK)) $(if $(OUT),--out "$(OUT)")

docs: $(VENV)/dev.stamp ## Build the docs as a site, which needs no network (site/index.html)
	$(MKDOCS) build --strict

docs-serve: $(VENV)/dev.stamp ## Serve the docs on http://127.0.0.1:8000, with search, and again after each change
	$(MKDOCS) serve --dev-addr 127.0.0.1:8000

chart: $(VENV)/dev.stamp ## Lint the Helm chart and write its archive to dist/
	$(BIN)/python -m tools.chart

install-demo: $(VENV)/dev.stamp ## Install, upgrade and uninstall the chart on a local cluster, timed; what is left is nothing
	$(BIN)/python -m tools.install_demo $$($(BIN)/python -m tools.chart)

size: $(VENV)/dev.stamp ## Count lines, files and functions by package (REV=main counts a commit)
	@$(BIN)/python -m tools.size $(REV)

test-kube: $(VENV)/dev.stamp ## Run the contract tests, against COREWISE_TEST_KUBECONFIG if it is set
	$(BIN)/pytest tests/kube_contract $(T)

test-kubelet: $(VENV)/run.stamp ## Test as root what this node's kubelet rewrites of its cgroups (KUBECONFIG=FILE; NODE=NAME, IMAGE=, RESTART=COMMAND)
	@$(BIN)/python -m experiments.kubelet_rewrites --kubeconfig "$(KUBECONFIG)" $(if $(NODE),--node "$(NODE)") \
	  $(if $(IMAGE),--image "$(IMAGE)") $(if $(RESTART),--restart "$(RESTART)") $(if $(OUT),--out "$(OUT)")

$(VENV)/node.stamp: requirements/node.txt $(VENV)/dev.stamp
	$(PIP) --retries 10 --require-hashes -r requirements/node.txt && touch $@ || \
	  echo "virtme-ng cannot be installed here: tests in virtual machines will be skipped" >&2

test-node: $(VENV)/node.stamp ## Run the tests on real kernels, in virtual machines (docs/internals/testing-on-kernels.md)
	COREWISE_TEST_NODE=1 $(BIN)/pytest -o faulthandler_timeout=1800 tests/node $(T)

RUN  := $(patsubst %,$(P)/%/pyproject.toml,kubedouble corewise corewise-lab)
LOCK := uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header
NOT_OURS := $(addprefix --no-emit-package ,cel-expr-python corewise corewise-lab corewise-openstack kubedouble)

lock: ## Resolve the locked requirements again (needs uv)
	echo 'hatchling>=1.25 editables' | tr ' ' '\n' | $(LOCK) - -o requirements/build.txt
	$(LOCK) $(NOT_OURS) $(RUN) -o requirements/run.txt
	echo cel-expr-python | $(LOCK) - -c requirements/run.txt -o requirements/cel.txt
	$(LOCK) $(NOT_OURS) $(P)/*/pyproject.toml -c requirements/run.txt -o requirements/openstack.txt
	$(LOCK) $(NOT_OURS) --group dev $(RUN) -c requirements/openstack.txt -o requirements/dev.txt
	echo setuptools | $(LOCK) - -c requirements/openstack.txt -o requirements/libvirt-build.txt
	echo 'libvirt-python>=9' | $(LOCK) - -o requirements/libvirt.txt
	$(LOCK) --group node -c requirements/dev.txt -o requirements/node.txt

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .wheels .mypy_cache .ruff_cache .pytest_cache .hypothesis
