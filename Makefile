# Everything a newcomer needs: `make run` and `make test`. The rest is listed by `make help`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := check
.PHONY: check help run test test-slow chaos fuzz fuzz-api lint format docs lock reqs bench bench-quick load demo clean \
	test-again rooms-export rooms-import

LOCK_FLAGS := --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

# Tests that need shared stores get throw-away ones, unless the environment names others; none of them is skipped.
test test-slow: export TEST_VALKEY_URL ?= auto
test test-slow: export TEST_DATABASE_URL ?= auto
test test-slow: export QM_REQUIRE_VALKEY ?= 1

check: lint test ## lint and test (the default)

help: ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/run.stamp: requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	touch $@

$(VENV)/dev.stamp: requirements-dev.lock $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@

$(VENV)/demo.stamp: requirements-dev.lock $(VENV)/run.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c requirements-dev.lock aiohttp httpx
	touch $@

run: $(VENV)/run.stamp ## start the server on http://127.0.0.1:8080 with its private stores in ./data
	@exec $(BIN)/python -m app serve

demo: $(VENV)/demo.stamp ## the server, a little shop behind it and visitors in line; Ctrl-C ends all
	@exec $(BIN)/python -m loadtests.demo

test: $(VENV)/dev.stamp ## all tests in their short form
	@bash .ci/ensure
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder

test-slow: $(VENV)/dev.stamp ## the long forms too
	@bash .ci/ensure
	$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder -m 'slow or not slow'

test-again: $(VENV)/dev.stamp ## the few tests that failed in the last run, once more and alone
	$(BIN)/python -m tests.again

chaos: $(VENV)/dev.stamp ## everything that can break under a fleet, in its long forms (QM_CHAOS_SEED of an earlier run)
	$(BIN)/python -m pytest -q -s tests/chaos tests/journal/test_lives.py -m 'slow or not slow'

fuzz: $(VENV)/dev.stamp ## random plays on the engine and its model side by side (SECONDS=300, SEED of an earlier run)
	@exec $(BIN)/python -m tests.model --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

fuzz-api: $(VENV)/dev.stamp ## thousands of made-up requests to every route, against the API's own description
	$(BIN)/python -m pytest -q tests/fuzz -m slow

lint: $(VENV)/dev.stamp ## ruff, mypy, layers, dead code, generated references
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture app blueprints workers loadtests bench --min-confidence 80
	$(BIN)/python -m app docs --check

format: $(VENV)/dev.stamp ## let ruff put everything into shape
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/dev.stamp ## write the generated references
	$(BIN)/python -m app docs

reqs: $(VENV)/dev.stamp ## which requirements of docs/spec have a test (ARGS="ENG --missing")
	@$(BIN)/python -m tests.requirements_report $(ARGS)

bench: $(VENV)/dev.stamp ## CPU per request beside a bare handler, figures at 1k and 1M waiting
	@exec $(BIN)/python -m bench

bench-quick: $(VENV)/dev.stamp ## the same with short rounds and 20,000 waiting
	@exec $(BIN)/python -m bench --quick

load: $(VENV)/dev.stamp ## Locust surge against a server of its own, with a verdict
	@exec $(BIN)/python -m loadtests.surge

rooms-export: $(VENV)/run.stamp ## settings of all rooms of a server to FILE (URL=https://queue.example, key in KEY)
	@printf '%s\n' "$$KEY" | $(BIN)/python -m app rooms export --url "$(URL)" "$(or $(FILE),rooms.json)"

rooms-import: $(VENV)/run.stamp ## FILE of rooms-export to the server at URL (key in KEY); twice changes nothing
	@printf '%s\n' "$$KEY" | $(BIN)/python -m app rooms import --url "$(URL)" "$(or $(FILE),rooms.json)"

lock: $(VENV)/dev.stamp ## pin what pyproject.toml asks for
	$(BIN)/pip-compile -q --strip-extras $(LOCK_FLAGS) -o requirements.lock pyproject.toml
	$(BIN)/pip-compile -q --strip-extras $(LOCK_FLAGS) --extra dev -c requirements.lock -o requirements-dev.lock pyproject.toml

clean: ## remove what was built (not ./data)
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/output
