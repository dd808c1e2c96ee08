# Included by the Makefile: the shim on other Triton generations and on other people's frontends.
# Each environment is made by nox, in .nox/; several GB of wheels in all.

NOX := $(VENV)/bin/nox

.PHONY: test-frontends matrix

test-frontends: $(NOX) ## Test three Triton generations, torch Inductor and torch_npu, as published (1 GB of wheels)
	@$(NOX) --tags ci

# The file is written also when something failed: the cells say what.
matrix: $(NOX) ## Test everything there is and write COMPATIBILITY.md from what was found (several GB of wheels)
	@rm -rf build/matrix
	@echo "these environments, one after another, in .nox/:" && $(NOX) --tags matrix --list | grep '^\*'
	@$(NOX) --tags matrix; status=$$?; $(PY) tests/frontends/matrix.py build/matrix COMPATIBILITY.md && exit $$status

$(NOX): $(INSTALLED)
	@$(PY) -m pip install --quiet --disable-pip-version-check 'nox>=2024.4' && touch $@
