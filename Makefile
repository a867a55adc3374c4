# One command for each chore; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
export PYTHONPATH := operator:serving_image:.
# The environment is made again only when what it is made from changes.
INSTALLED := $(VENV)/.installed-$(shell cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(INSTALLED): pyproject.toml constraints.txt
	@echo "==> Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q -c constraints.txt -e '.[dev]'
	@rm -f $(VENV)/.installed-*
	@touch $@

S3_SERVER := $(VENV)/s3-server/.installed-$(shell sha256sum < tests/s3_server.txt | cut -c1-16)
$(S3_SERVER): tests/s3_server.txt | $(INSTALLED)
	@rm -rf $(VENV)/s3-server
	@$(BIN)/pip install -q --no-deps --target $(VENV)/s3-server -r $<
	@touch $@

.PHONY: install
install: $(INSTALLED) $(S3_SERVER) ## Make the Python environment

.PHONY: lint
lint: install ## Style, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: unit
unit: install ## Unit tests: nothing but Python
	$(BIN)/pytest -q -n auto --dist worksteal tests/unit --cov

.PHONY: clients
clients: install ## The openai package and curl against the gateway
	$(BIN)/pytest -q tests/clients

REQUESTS ?= 10000
SEED ?= 2026
.PHONY: soak
soak: install ## Very many requests with faults through the gateway (REQUESTS=100000, SEED=...)
	$(BIN)/pytest -q tests/soak --requests $(REQUESTS) --seed $(SEED)

.PHONY: check
check: lint unit ## The inner loop: lint, types, contracts, unit tests

.PHONY: chart
chart: install ## The chart's table of values, and build/stoker.yaml for kubectl
	$(BIN)/python charts/generate.py

.PHONY: programs
programs: install ## Build Kubernetes and what belongs to it, once (into ~/.cache/stoker)
	@$(BIN)/python -m e2e.cluster build

.PHONY: api-server
api-server: programs ## Tests against a real API server, built from Go modules the first time
	$(BIN)/pytest -q tests/chart tests/cluster

.PHONY: bench
bench: install ## Measure the operator, the gateway and `stoker plan`: tables, and JSON in build/bench/
	$(BIN)/python tests/bench/plan_bench.py
	$(BIN)/python tests/bench/operator_bench.py
	$(BIN)/python tests/bench/gateway_bench.py

.PHONY: size-page
size-page: install ## Write the answers of stoker plan in docs/size.md anew
	$(BIN)/python -m tests.unit.cli.plan.shown

.PHONY: capacity-vectors
capacity-vectors: install ## What people published about memory and speed, beside what is computed
	$(BIN)/python tests/bench/capacity_vectors.py

.PHONY: crds
crds: install ## Write crds/ and docs/conditions.md from the models
	$(BIN)/python -m stoker crds --checkout .

.PHONY: e2e
e2e: programs ## Scenarios on a cluster with two nodes (as root); STOKER_E2E_STATE=FOLDER keeps the cluster
	@$(BIN)/python -m e2e.cluster images --build-only
	$(BIN)/pytest -q tests/e2e

.PHONY: test
test: check clients soak api-server e2e ## Everything, on a fresh machine, alone

.PHONY: cluster-up
cluster-up: install ## Start a Kubernetes with two nodes on this machine (as root)
	$(BIN)/python -m e2e.cluster up

.PHONY: images
images: install ## Build the images, and bring them to the nodes if a cluster is up
	$(BIN)/python -m e2e.cluster images

.PHONY: cluster-down
cluster-down: install ## End it and remove all that it made
	$(BIN)/python -m e2e.cluster down

CLUSTER ?= embedded
REGISTRY ?= localhost
.PHONY: demo
demo: install ## A model applied with kubectl answers, on a real cluster (CLUSTER=current: on yours)
	@$(BIN)/python -m e2e.demo --cluster $(CLUSTER) --registry $(REGISTRY)

.PHONY: demo-down
demo-down: install ## End the demo's cluster and remove all that it made
	@$(BIN)/python -m e2e.cluster down --state /var/tmp/stoker/demo

.PHONY: clean
clean: ## Remove what the commands made in this checkout
	rm -rf build $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
