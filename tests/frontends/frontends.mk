# Included by the Makefile: the shim on other Triton generations and on other people's frontends.
# Each environment is made by nox, in .nox/; several GB of wheels in all.

INSTALLED_NOX := $(VENV)/bin/nox
NOX := PATH="$(CURDIR)/build/pythons:$$PATH" $(INSTALLED_NOX)
PYTHONS := $(addprefix python-,3.9 3.10 3.11 3.12 3.13 3.14)

.PHONY: test-frontends matrix $(PYTHONS)

test-frontends: $(INSTALLED_NOX) python-3.14 ## Test three Triton generations, torch Inductor and torch_npu, as published (1 GB of wheels)
	@$(NOX) --tags ci

# The file is written also when something failed: the cells say what.
matrix: $(INSTALLED_NOX) $(PYTHONS) ## Test everything there is and write COMPATIBILITY.md from what was found (several GB of wheels)
	@rm -rf build/matrix
	@echo "these environments, one after another, in .nox/:" && $(NOX) --tags matrix --list | grep '^\*'
	@$(NOX) --tags matrix; status=$$?; $(PY) tests/frontends/matrix.py build/matrix COMPATIBILITY.md && exit $$status

# Where there is none, it says so, and nox skips what needs it.
$(PYTHONS): python-%:
	@.ci/get-python $* build/pythons || true

$(INSTALLED_NOX): $(INSTALLED)
	@$(PY) -m pip install --quiet --disable-pip-version-check 'nox>=2024.4' && touch $@
