# Each target does its own set-up: a machine needs Python 3.9 to 3.11 (or uv), pip and make.

VENV ?= .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
QUIETLY := .ci/with-temporary-caches

.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench corpus catalogue trees clean

# What `make test` runs: T=PATH names a file, a folder or a test, and leaves the lint out.
T ?=

help: ## Say what can be made
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r target text; do printf '%-18s %s\n' "$$target" "$$text"; done

demo: $(INSTALLED) ## Show the bug and the fix on the real triton-ascend 3.2.0; no NPU needed
	@$(QUIETLY) $(PY) -m triton_ascend_compat demo

test: $(INSTALLED) $(if $(T),,lint) ## Lint, types and tests, no NPU needed; T=PATH: a file, folder or test
	@echo "tests" && $(QUIETLY) $(PY) -m pytest -q $(or $(T),--ignore=tests/frontends)

format: $(INSTALLED) ## Put the layout of the code right, and what ruff can repair
	@$(PY) -m ruff check --quiet --fix . && $(PY) -m ruff format .

lint: $(INSTALLED) ## Lint, format and types only
	@echo "lint" && $(PY) -m ruff check --quiet . && $(PY) -m ruff format --check --quiet .
	@echo "types" && $(PY) -m mypy --no-error-summary && \
		$(PY) -m mypy --no-error-summary --strict benchmarks/*.py docs/catalogue/*.py

bench: $(INSTALLED) ## Measure what the shim costs; BENCH_ARGS=--readme puts the table into the READMEs
	@$(QUIETLY) $(PY) benchmarks/run.py $(BENCH_ARGS)

corpus: ## Compile kernels of public packages offline, write docs/offline-corpus.md (2 GB, a quarter of an hour)
	@.ci/make-venv $(VENV)-corpus
	@echo "installing torch and the packages whose kernels are compiled into $(VENV)-corpus (2 GB)"
	@$(VENV)-corpus/bin/python -m pip install --quiet -r benchmarks/corpus/requirements.txt
	@$(VENV)-corpus/bin/python -m pip install --quiet --no-deps -r benchmarks/corpus/requirements-no-deps.txt
	@$(QUIETLY) $(VENV)-corpus/bin/python benchmarks/offline_corpus.py

catalogue: $(INSTALLED) ## Read the options of a triton-ascend into the data: TREE=… RELEASE=… [ARGS=…]
	@$(PY) docs/catalogue/refresh.py "$(TREE)" --release "$(RELEASE)" $(ARGS)

# What repositories of TRITON_ASCEND_GIT hold already is not fetched.
trees: export TRITON_ASCEND_GIT := $(TRITON_ASCEND_GIT):$(CURDIR)/build/triton-ascend.git
trees: $(INSTALLED) ## Test the source patches on the real trees of triton-ascend, fetched from github.com once
	@$(PY) -m tests.patching.trees fetch build/triton-ascend.git
	@$(QUIETLY) $(PY) -m pytest -q tests/patching/test_trees.py tests/patching/test_upstream.py

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) $(VENV)-corpus build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .nox
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): pyproject.toml .ci/make-venv
	@.ci/make-venv $(VENV)
	@touch $@

include tests/frontends/frontends.mk
