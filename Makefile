# Every target is one line that calls a command of `clm-or-mlm`. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	if $$name -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$name; break; fi; done)
SOURCE ?= published
OUT ?= build
IMAGE ?= analysis
PROFILE ?= local
TARGET ?= figure3
STORE ?=
ARGS ?=
SMALL := .venv/analysis
DOCS := .venv/docs
CLUSTER := .venv/cluster
FULL := .venv/full
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^## /{printf "\n%s\n", substr($$0, 4)} /^[a-z0-9%_-]+:.*## /{printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## Environments (installed when a target needs them)
.PHONY: analysis-env full-env cluster-env oracle-env
analysis-env: $(SMALL)/.installed ## the small environment, .venv/analysis, without torch
full-env: $(FULL)/.installed ## the full environment, .venv/full: training, fine-tuning, tests (7.3 GB)
cluster-env: $(CLUSTER)/.installed ## the login node's environment, .venv/cluster: images and the workflow, without torch
oracle-env: $(FULL)/.installed ## sentence-transformers 3.4.1 for some tests, which otherwise install it themselves (180 MB)
	@$(FULL)/bin/python -m tests.oracle

# A linked environment that is there belongs to another checkout: it is used as it is.
.venv/%/.installed: requirements/%.txt
	@if { [ -L .venv ] || [ -L .venv/$* ]; } && [ -x .venv/$*/bin/python ]; then \
	echo "note: .venv/$* is a link and older than requirements/$*.txt; used as it is (remove the link to install it again)" >&2; \
	else $(MAKE) --silent new-environment ENVIRONMENT=$*; fi

new-environment:
	@if [ -z "$(PYTHON)" ]; then found="none is on PATH"; else found="$(PYTHON) is not one"; fi; \
	"$(or $(PYTHON),false)" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "error: Python 3.11 or newer with venv is needed, but $$found; install it (on Debian: apt install python3-venv) or pass it: make PYTHON=/path/to/python3 ..." >&2; exit 2; }
	@echo "installing requirements/$(ENVIRONMENT).txt into .venv/$(ENVIRONMENT) with $(PYTHON) ..." >&2
	@$(PYTHON) -m venv --clear .venv/$(ENVIRONMENT)
	@# What builds source distributions comes first, from the lock: pip would fetch the newest, without a hash.
	@.venv/$(ENVIRONMENT)/bin/python -m pip install --quiet --no-input --no-deps --require-hashes \
	-r <(awk '/^[^ #]/ {p = /^(packaging|setuptools|setuptools-scm|vcs-versioning)==/} p' requirements/$(ENVIRONMENT).txt)
	@.venv/$(ENVIRONMENT)/bin/python -m pip install --quiet --no-input --no-deps --no-build-isolation --require-hashes \
	-r requirements/$(ENVIRONMENT).txt
	@pwd > "$$(.venv/$(ENVIRONMENT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/clm-or-mlm.pth"
	@printf '#!/bin/sh\nexec "%s/python" -Pc "from clm_or_mlm.__main__ import console; console()" "$$@"\n' \
	"$(CURDIR)/.venv/$(ENVIRONMENT)/bin" > .venv/$(ENVIRONMENT)/bin/clm-or-mlm
	@chmod +x .venv/$(ENVIRONMENT)/bin/clm-or-mlm
	@touch .venv/$(ENVIRONMENT)/.installed
	@echo "installed; to use it: source .venv/$(ENVIRONMENT)/bin/activate" >&2

## Results
.PHONY: reproduce-figure3 reproduce report findings docs
reproduce-figure3: $(SMALL)/.installed ## Figure 3, its numbers and where they come from (SOURCE=published|released|miniature|PATH)
	@$(SMALL)/bin/python -m clm_or_mlm figure 3 --source "$(SOURCE)" --out "$(OUT)/figures" $(ARGS)

reproduce: $(SMALL)/.installed ## every table and figure that the source allows, the audit, and a page with links to them: build/index.html
	@$(SMALL)/bin/python -m clm_or_mlm reproduce --source "$(SOURCE)" --out "$(OUT)" $(ARGS)

report: $(SMALL)/.installed ## one self-contained page of everything: build/report/index.html
	@$(SMALL)/bin/python -m clm_or_mlm report --source "$(SOURCE)" --out "$(OUT)/report/index.html" $(ARGS)

findings: $(SMALL)/.installed ## regenerate docs/findings.md from the published cells
	@$(SMALL)/bin/python -m clm_or_mlm claims --source published --format markdown --out docs/findings.md

docs: $(SMALL)/.installed $(DOCS)/.installed ## these pages as a site with search, a gallery and the Python reference: build/docs
	@names=$$($(SMALL)/bin/python -c "from paper_figures.figure import FIGURES; print(*FIGURES)"); \
	for source in published miniature; do rm -rf build/site-figures/$$source; \
	$(SMALL)/bin/python -m clm_or_mlm figure all $$names --source $$source --format svg \
	--out build/site-figures/$$source >/dev/null; done
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build
	@echo build/docs/index.html

## A toy study (docs/miniature.md)
.PHONY: miniature
DATA ?=
STUDY_ENV := $(if $(filter slurm,$(PROFILE)),$(CLUSTER),$(FULL))
TOY := $(OUT)/miniature/$(if $(DATA),curves,smallest)
TOY_SETTINGS := $(if $(DATA),$(TOY),miniature/smallest)/settings.toml
miniature: ## every step of a study, in minutes, on made-up data (DATA=folder: hours, on yours; PROFILE=slurm: there, in the full image)
	@$(MAKE) --silent $(STUDY_ENV)/.installed $(if $(DATA),$(FULL)/.installed)
	@$(if $(DATA),$(FULL)/bin/python -m miniature.data "$(DATA)" "$(TOY)")
	@$(STUDY_ENV)/bin/python -m clm_or_mlm workflow all --settings "$(TOY_SETTINGS)" --dir "$(TOY)" \
	--profile $(PROFILE) $(if $(filter slurm,$(PROFILE)),--image $(OUT)/full.sif) $(ARGS)

.PHONY: gpu-check
GPU_PYTHON ?= $(FULL)/bin/python
gpu-check: ## the tests that need a GPU, two minutes (GPU_PYTHON=python on a machine with PyTorch, ARGS="--device cpu")
	@if [ "$(GPU_PYTHON)" = "$(FULL)/bin/python" ]; then $(MAKE) --silent $(FULL)/.installed; fi
	@$(GPU_PYTHON) -m tests.speed.gpu_check $(if $(ARGS),$(ARGS),--device cuda)

## Images and clusters (docs/hpc.md)
.PHONY: image image-full image-test doctor study study-status audit
image: $(CLUSTER)/.installed ## build/analysis.sif, the small Apptainer image
	@$(CLUSTER)/bin/python -m clm_or_mlm build analysis $(ARGS)

image-full: $(CLUSTER)/.installed ## build/full.sif, the image for training (40 GB of free space while it builds)
	@$(CLUSTER)/bin/python -m clm_or_mlm build full $(ARGS)

image-test: $(CLUSTER)/.installed ## run the image's own tests and compare it with the locks (IMAGE=analysis|full)
	@$(CLUSTER)/bin/python -m clm_or_mlm test $(IMAGE)
	@$(CLUSTER)/bin/python -m clm_or_mlm container verify $(IMAGE) $(ARGS)

study: ## run a study's jobs here, or submit them to a cluster (TARGET=figure3|table10|all, PROFILE=local|slurm, ARGS=--dry-run)
	@$(MAKE) --silent $(STUDY_ENV)/.installed
	@$(STUDY_ENV)/bin/python -m clm_or_mlm workflow $(TARGET) --profile $(PROFILE) $(ARGS)

DIR ?= build/study
study-status: $(CLUSTER)/.installed ## jobs done, running, queued and failed, and hours used and left (DIR=folder)
	@$(CLUSTER)/bin/python -m clm_or_mlm workflow status --dir "$(DIR)" $(ARGS)

audit: $(SMALL)/.installed ## check a finished study: coverage, published scores against yours, provenance, failures (STORE=DIR)
	@test -n "$(STORE)" || { echo "error: name the store: make audit STORE=DIR" >&2; exit 2; }
	@$(SMALL)/bin/python -m clm_or_mlm audit --source "$(STORE)" $(ARGS)

doctor: $(CLUSTER)/.installed ## find what this machine or cluster lacks, and how to fix it
	@$(CLUSTER)/bin/python -m clm_or_mlm doctor $(ARGS)

## Checks
.PHONY: test test-all quick-tests all-tests lint lock
test: $(FULL)/.installed ## lint, types and the tests, in parallel (minutes)
	@$(MAKE) -j 2 lint quick-tests

test-all: $(FULL)/.installed ## lint, types and all tests, including the long ones
	@$(MAKE) -j 2 lint all-tests

# One thread a worker. Every worker, and every process that a test starts, would compile these modules again where the
# user's shell forbids Python to keep the result.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(FULL)/bin/python -m pytest
quick-tests: $(FULL)/.installed ## the tests without lint and types
	@MAKEFLAGS=--no-print-directory $(PYTEST) -n 3 -p tests.shares -m "not slow" $(ARGS)

all-tests: $(FULL)/.installed ## all tests, including the long ones, without lint and types
	@MAKEFLAGS=--no-print-directory $(PYTEST) -n 3 --dist worksteal $(ARGS)

lint: $(FULL)/.installed ## ruff and mypy
	@$(FULL)/bin/python -m ruff check .
	@$(FULL)/bin/python -m ruff format --check .
	@$(FULL)/bin/python -m mypy

UV := $(FULL)/bin/python -m uv pip compile --quiet --python-version 3.11 --universal --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --no-header
lock: ## regenerate the hash-locked requirements from pyproject.toml and the .in files
	@$(UV) --override requirements/overrides.txt --excludes requirements/excludes.txt --extra full --extra test \
	pyproject.toml requirements/composer.in -o requirements/full.txt
	@$(UV) --override requirements/overrides.txt --excludes requirements/excludes.txt -c requirements/full.txt --extra full \
	pyproject.toml requirements/composer.in -o requirements/full-image.txt
	@$(UV) -c requirements/full.txt pyproject.toml -o requirements/analysis.txt
	@$(UV) -c requirements/full.txt requirements/cluster.in -o requirements/cluster.txt
	@$(UV) --excludes requirements/oracle-borrowed.txt requirements/oracle.in -o requirements/oracle.txt
	@$(UV) requirements/validators.in -o requirements/validators.txt
	@$(UV) requirements/docs.in -o requirements/docs.txt
