# Doors to tox for those who have only Python (3.11 or newer, with its venv module) and make.
PYTHON ?= python3
VENV ?= .venv

.PHONY: test test-contract lint demo fleet-demo

test: $(VENV)/bin/tox
	$(VENV)/bin/tox

test-contract: $(VENV)/bin/tox
	$(VENV)/bin/tox -e contract

lint: $(VENV)/bin/tox
	$(VENV)/bin/tox -e lint,typing

demo: $(VENV)/bin/tox
	@$(VENV)/bin/tox -q -e demo

# The first time it fetches a homeserver and two clients; npm is needed for these.
fleet-demo: $(VENV)/bin/tox
	@tests/fetch.sh
	@echo 'fencepost is installed for the demonstration, which takes a minute the first time'
	@$(VENV)/bin/tox -q -e fleet-demo

$(VENV)/bin/tox:
	@$(PYTHON) -c 'import sys; sys.exit("fencepost needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet 'tox>=4.40'
