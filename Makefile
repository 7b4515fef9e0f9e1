# Everything runs in .venv, from hashed requirements. Users need only `make serve`.
PYTHON ?= python3
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --require-hashes
# It installs in seconds what takes pip a minute, but does not read pip's settings: where it finds no index, pip follows.
UV := $(PY) -m uv pip install --quiet --require-hashes --python $(PY)
PIP_INTO = $(PY) -m pip --disable-pip-version-check --python $(1) install --quiet --require-hashes
# The environments of `make sbom`: what `make serve` installs, and the tool that lists it.
RUNTIME := build/sbom/runtime
LISTING := build/sbom/tool
# The builder of the site, with requirements that the service does not share.
DOCS := build/docs
# The environment of examples/llm_router: LiteLLM cannot share that of the service, which has another python-dateutil.
EXAMPLES := build/examples
TYPESCRIPT := client/typescript
OPENFEATURE := examples/openfeature
NPM := $(shell command -v npm)
CODE := $(wildcard service learners toolkit tests benchmarks client/wager_client examples)
LOCK := $(PY) -m uv pip compile --no-config --universal --python-version 3.11 \
	--generate-hashes --no-annotate --no-header --quiet
LOCK_PROJECT := $(LOCK) pyproject.toml

.DELETE_ON_ERROR:
.PHONY: help install otel tools examples serve demo test mutations check chaos simulate bench image-test openapi docs sbom wheels lock clean

help:
	@echo "make serve      run the service (ARGS='--port 9000' passes options on)"
	@echo "make otel       install the OpenTelemetry exporter (see OTEL_EXPORTER_OTLP_ENDPOINT)"
	@echo "make tools      install what wager compare, evaluate, export and replay need for Parquet and plots"
	@echo "make examples   install LiteLLM for examples/llm_router into build/examples"
	@echo "make demo       watch a model follow the clicks of a simulated site"
	@echo "make install    install .venv/bin/wager and compile all learners, without starting it"
	@echo "make test       run the tests on all cores (ARGS='-m slow' for the slow ones)"
	@echo "make mutations  check that the tests detect known errors (ARGS='--only soba' for some of them)"
	@echo "make chaos      inject faults under load and count losses (ARGS='--seconds 600')"
	@echo "make simulate   simulate workers, clients, network and store from a seed (SEED=7 ARGS='--total 1000000')"
	@echo "make check      lint, formatting, types, an audit of the workflows"
	@echo "make bench      run the benchmarks"
	@echo "make image-test build the image and run docker-compose.yml, without Docker (root; see docker/test.sh)"
	@echo "make openapi    regenerate openapi.json, openapi.md and the types of the TypeScript client"
	@echo "make docs       build the site of the pages into build/docs/site; fails on a broken link or anchor"
	@echo "make sbom       list what the service installs, with licences (build/sbom/wager.cdx.json, docs/reference/licences.md)"
	@echo "make wheels     build the wheels of the service and of the client into dist"
	@echo "make lock       regenerate requirements/ (ARGS=--upgrade for newer versions)"
	@echo "make clean      remove .venv and caches; data stays"

install: $(VENV)/.kernels
otel: $(VENV)/.otel
tools: $(VENV)/.tools
examples: $(EXAMPLES)/.made
serve: $(VENV)/.serve
	@exec $(VENV)/bin/wager serve $(ARGS)
demo: $(VENV)/.serve
	@exec $(VENV)/bin/wager demo $(ARGS)
# Two processes more than cores, because many tests wait; each has one thread for linear algebra.
# Bytecode is kept even where the environment forbids it: tests start hundreds of processes.
test: export OPENBLAS_NUM_THREADS = 1
test: export PYTHONDONTWRITEBYTECODE =
test: PROCESSES = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
test: $(VENV)/.bench $(VENV)/.kernels $(if $(NPM),$(TYPESCRIPT)/dist/index.js $(OPENFEATURE)/node_modules/.installed)
	$(PY) -m pytest --numprocesses $(PROCESSES) --dist worksteal $(ARGS)
mutations: $(VENV)/.dev
	$(PY) -m tests.mutation $(ARGS)
chaos: $(VENV)/.dev
	$(PY) -m tests.chaos $(ARGS)
simulate: SEED ?= 1
simulate: $(VENV)/.dev
	$(PY) -m tests.simulation --seed $(SEED) $(ARGS)
check: $(VENV)/.bench
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check $(CODE)
	$(PY) -m mypy $(CODE)
	$(VENV)/bin/zizmor --offline --quiet --persona auditor .github
bench: $(VENV)/.bench
	$(PY) -m benchmarks $(ARGS)
image-test: $(VENV)/.dev
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" docker/test.sh $(ARGS)
openapi: $(VENV)/.serve $(if $(NPM),$(TYPESCRIPT)/node_modules/.installed)
	$(PY) -m toolkit.openapi_page
	$(if $(NPM),cd $(TYPESCRIPT) && $(NPM) run generate)
# The builder reports broken anchors. No page may load anything from another host. Beside each page is its Markdown, which
# llms.txt names.
docs: $(DOCS)/.made
	$(PY) toolkit/docs_pages.py $(DOCS)/pages
	rm -rf $(DOCS)/site
	$(DOCS)/tool/bin/zensical build --clean --strict
	! grep -rnoE --include='*.html' '(src=|<link [^>]*href=)"?https?://[^">]*' $(DOCS)/site
	cp -R $(DOCS)/pages/. $(DOCS)/site
# The same lock gives the same file on machines of one kind: no times, no serial numbers, no paths.
sbom: $(VENV)/.serve
	$(PY) -m venv --clear --without-pip $(RUNTIME)
	$(PY) -m venv --clear --without-pip $(LISTING)
	$(call PIP_INTO,$(RUNTIME)) -r requirements/serve.txt
	$(call PIP_INTO,$(LISTING)) -r requirements/sbom.txt
	$(LISTING)/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file build/sbom/wager.cdx.json $(RUNTIME)
	$(PY) -P -m tests.supply.licences build/sbom/wager.cdx.json > docs/reference/licences.md.new
	mv docs/reference/licences.md.new docs/reference/licences.md
# The same source gives the same bytes, unless SOURCE_DATE_EPOCH differs, to which the builder sets all times.
wheels: $(VENV)/.dev
	$(PY) -m hatchling build --target wheel --directory dist
	cd client && $(CURDIR)/$(PY) -m hatchling build --target wheel --directory $(CURDIR)/dist
lock: $(VENV)/.dev
	$(LOCK_PROJECT) $(ARGS) --output-file requirements/serve.txt
	$(LOCK_PROJECT) $(ARGS) --extra otel --constraints requirements/serve.txt --output-file requirements/otel.txt
	$(LOCK_PROJECT) $(ARGS) --extra tools --constraints requirements/otel.txt --output-file requirements/tools.txt
	$(LOCK_PROJECT) $(ARGS) --all-extras --group dev --constraints requirements/otel.txt --constraints requirements/tools.txt \
		--output-file requirements/dev.txt
	$(LOCK_PROJECT) $(ARGS) --group bench --constraints requirements/dev.txt --output-file requirements/bench.txt
	$(LOCK) $(ARGS) --group installer --constraints requirements/dev.txt --output-file requirements/installer.txt
	$(LOCK) $(ARGS) --group sbom --output-file requirements/sbom.txt
	$(LOCK) $(ARGS) --group examples --output-file requirements/examples.txt
	$(LOCK) $(ARGS) --group docs --output-file requirements/docs.txt
clean:
	rm -rf $(addprefix $(TYPESCRIPT)/,node_modules build dist) $(OPENFEATURE)/node_modules
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# Recreate a .venv whose interpreter no longer runs (after a system upgrade, or in a copied folder).
ifneq ($(shell $(PY) -c 'print("runs")' 2>/dev/null),runs)
.PHONY: $(VENV)/.made
endif
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Wager needs Python 3.11 or newer, and '$(PYTHON)' is not: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# A .pth file puts the checkout on the path, so running it needs no build tool. -P keeps the current
# folder from shadowing the packages.
$(VENV)/.serve: requirements/serve.txt $(VENV)/.made
	$(PIP) -r requirements/serve.txt
	@printf '%s\n' ../../../.. ../../../../client > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/wager.pth"
	@printf '#!/bin/sh\nexec "$$(dirname "$$(readlink -f "$$0")")/python" -P -m service "$$@"\n' > $(VENV)/bin/wager
	@chmod +x $(VENV)/bin/wager
	@touch $@
# The cache of compiled kernels belongs to one version of the sources.
$(VENV)/.kernels: $(VENV)/.serve $(shell find learners -name '*.py')
	@echo "Compiling the learners for this machine ..."
	@$(PY) -P -m learners
	@touch $@
$(VENV)/.otel: requirements/otel.txt $(VENV)/.serve
	$(PIP) -r requirements/otel.txt
	@touch $@
$(VENV)/.tools: requirements/tools.txt $(VENV)/.serve
	$(PIP) -r requirements/tools.txt
	@touch $@
$(VENV)/.dev: requirements/dev.txt requirements/installer.txt $(VENV)/.serve
	$(PIP) -r requirements/installer.txt
	$(UV) -r $< || $(PIP) -r $<
	@touch $@
$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	$(UV) -r $< || $(PIP) -r $<
	@touch $@
$(EXAMPLES)/.made: requirements/examples.txt $(VENV)/.made
	$(PY) -m venv --clear --without-pip $(EXAMPLES)
	$(call PIP_INTO,$(EXAMPLES)) -r $<
	@printf '%s\n' "$(CURDIR)/client" "$(CURDIR)/examples" > "$$($(EXAMPLES)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/wager.pth"
	@touch $@
$(DOCS)/.made: requirements/docs.txt $(VENV)/.made
	$(PY) -m venv --clear --without-pip $(DOCS)/tool
	$(call PIP_INTO,$(DOCS)/tool) -r $<
	@touch $@
%/node_modules/.installed: %/package-lock.json
	cd $* && $(NPM) ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
$(TYPESCRIPT)/dist/index.js: $(TYPESCRIPT)/node_modules/.installed $(TYPESCRIPT)/tsconfig.json $(wildcard $(TYPESCRIPT)/src/*.ts)
	cd $(TYPESCRIPT) && $(NPM) run --silent build
	@touch $@
