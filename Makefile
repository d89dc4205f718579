# Everything is installed under .venv and .tools of this checkout; `make` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SECONDEXPANSION:
# Importing ms-swift takes 6 s of a processor with bytecode, 17 s without.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
PYTEST ?=
# `make refusals`: names of files of tests/refusals; all by default.
SUBJECTS ?=
# `make fuzz` and `make differential`: number of cases, and the seed of both.
FUZZ ?= 500
CASES ?= 1000
FUZZ_SEED ?= $(shell date +%s)
# `make hangs`: number of injected hangs, the first seed, how many run at once.
HANGS ?= 100
HANG_SEED ?= 0
HANG_JOBS ?= 2
# `make faults`: level of the catalogue, and names of faults; all by default. `make crash`: crash points.
LEVEL ?= process
NAMES ?=
POINTS ?= 12000
# `make bench-gpu`: folder of a tokenizer, folder of the results, visit of tests/bench/visits.yaml (table is that of the
# host's GPUs), and its lines (all by default).
TOKENIZER ?= tokenizer
RESULTS ?= tests/bench/results
VISIT ?= table
LINES ?=
# `make soak`: options of `python -m tests.e2e.soak`.
SOAK ?=
# `make release`: the version; GnuPG's name of the key that signs the package (unsigned by default); 1 refuses what
# must not be published, as in release.yaml.
VERSION ?=
SIGN_KEY ?=
PUBLISH ?=
# `make cluster` and `make e2e`: kind, processes, or auto, which is kind if a container engine answers.
BACKEND ?= auto
# `make test`: what changed since the common ancestor with origin/main, or in the last commit, and is trained with.
TRAINED := launchers/training launchers/flags launchers/upstream 'launchers/requirements-cpu*.txt' \
	tests/launchers/training tests/launchers/flags tests/launchers/upstream \
	tests/bench/gradients tests/bench/learning
BASE = $(shell git merge-base HEAD origin/main 2>/dev/null || git rev-parse --quiet --verify HEAD~)
CHANGED = $(shell git diff --name-only $(BASE) -- $(TRAINED); git ls-files --others --exclude-standard -- $(TRAINED))
# `make demo`: the ms-swift that trains, if not the default.
SWIFT ?=
# The other releases of ms-swift that the chart knows; `make test-next` runs tests with one of them.
RELEASES := $(patsubst tests/differential/requirements-%.in,%,$(wildcard tests/differential/requirements-*.in))
NEXT ?= 4.6.0
UV := .tools/uv/bin/uv
STAMPS := .tools/stamps
COMMAND := $(STAMPS)/command
TESTS := $(STAMPS)/tests
TRAIN := $(STAMPS)/train
ORACLE := $(STAMPS)/oracle
TRAIN_OTHERS := $(RELEASES:%=$(STAMPS)/train-%)
ORACLE_OTHERS := $(RELEASES:%=$(STAMPS)/oracle-%)
ENGINES := $(STAMPS)/engines
TRACKERS := $(STAMPS)/trackers
HELM := $(STAMPS)/helm
HELM3 := $(STAMPS)/helm3
# Programs of the cluster, each a folder of tests/e2e/tools, built by Go. Evaluated only when needed.
PROGRAMS_kind := kind
# E2E_KUBERNETES=1.37 selects a control plane of another version than the pinned one.
OTHER := $(notdir $(wildcard tests/e2e/tools/kubernetes-$(E2E_KUBERNETES)))
PROGRAMS_processes := etcd kubernetes $(OTHER) coredns jobset kueue pause
ENGINE = $(shell (docker info || podman info) >/dev/null 2>&1 && echo kind || echo processes)
CHOSEN = $(if $(filter auto,$(BACKEND)),$(ENGINE),$(BACKEND))
CLUSTER = $(addprefix $(STAMPS)/go-,$(PROGRAMS_$(CHOSEN)))
# `make e2e`: the numbers of the clusters; each worker of pytest has its own.
CLUSTERS = $(if $(filter kind,$(CHOSEN)),1,1 2)
# The language server of editors; without npm the tests that need it are skipped with that reason.
EDITOR := $(if $(shell command -v npm),$(STAMPS)/editor)
# Checkers that Go builds; without Go the tests that need them are skipped with that reason.
CHECKERS := $(if $(shell command -v go),$(addprefix $(STAMPS)/go-,actionlint ct kubeconform oras promql registry renderer))
INSTALL := $(UV) pip install --quiet --require-hashes
LOCK := $(UV) pip compile --quiet --universal --generate-hashes --annotation-style line --python-version 3.11 \
	--custom-compile-command "make locks"
# $(REST) OWN LOCK prints the packages of a lock that another, which is installed with it, does not pin itself.
REST := awk 'function name() { return substr($$1, 1, index($$1, "==")) } \
	NR == FNR { own[name()]; next } /^[a-z]/ { is_rest = !(name() in own) } is_rest'
# Options that leave out of a lock what another has, from its text.
LEAVE_OUT := sed -n 's/^\([a-z0-9.-]*\)==.*/--no-emit-package \1/p'
# OWN, LOCK, options: rewrite a lock that is installed with another, without uv's list of what is left out. To pin a package
# otherwise, or to add a release, put its line there first.
LOCK_WITH = $(LOCK) -o $1 $3 -c <($(REST) $1 $2) $$($(REST) $1 $2 | $(LEAVE_OUT)) && sed -i '/^$$/,$$d' $1
# For one platform. The extension of Transformer Engine requires the CUDA that it is compiled for, not cu12.
IMAGE_LOCK := $(UV) pip compile --quiet --generate-hashes --annotation-style line --python-version 3.12 --python-platform \
	x86_64-manylinux_2_28 --no-emit-package transformer-engine-cu12 --custom-compile-command "make locks"
# Tests whose result depends on SWIFT: flags, rules, packs, checkpoints and their resume. Patches are tested with all
# releases in `make check`.
NEXT_TESTS := tests/differential tests/field tests/launchers/rules \
	$(addprefix tests/launchers/evaluation/,test_evaluation.py test_probe.py) \
	$(addprefix tests/launchers/flags/,test_installed.py test_packages.py) \
	$(addprefix tests/launchers/training/,collect epochs experts/test_filler_edge.py \
	packs/test_packing_real.py packs/test_pair_weights_edge.py test_checked_read.py test_resume.py \
	test_seal_transformers.py)

# What tests need, and what in addition those with the marker `real` (tests/conftest.py).
TESTED := $(TESTS) $(HELM) $(HELM3) $(CHECKERS) $(EDITOR)
REAL := $(TRAIN) $(ORACLE) $(ORACLE_OTHERS) $(ENGINES) $(TRACKERS)
# Four workers, since many tests wait; each takes the next part of a file (tests/scheduling.py).
TEST := .venv/bin/python -m pytest --numprocesses 4

# Independent parts are built in parallel; finished ones take no time.
build = @$(MAKE) --silent --no-print-directory --jobs 4 $(1)

CLUSTER_COMMAND := .venv/bin/python -m tests.e2e.cluster
# Use clusters that are up and leave them up; start the others for the duration of the command.
with_clusters = trap 'for n in $$started; do E2E_CLUSTER=$$n $(CLUSTER_COMMAND) down; done' EXIT; started=; \
	for n in $(1); do if ! E2E_CLUSTER=$$n $(CLUSTER_COMMAND) status >/dev/null 2>&1; then \
	started+=" $$n"; E2E_CLUSTER=$$n $(CLUSTER_COMMAND) up --backend $(BACKEND); fi; done;
WITH_CLUSTER = $(call with_clusters,1)

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Try it
demo: ## run the whole job on this machine: two local nodes, real DPO of a tiny model
	$(call build,chart $(COMMAND) $(TRAIN) $(if $(filter $(RELEASES),$(SWIFT)),$(STAMPS)/train-$(SWIFT)) $(HELM))
	@.venv/bin/megatron-dpo demo $(SWIFT:%=--swift %)

chart: ## pack launchers/ into chart/, required by `helm install chart`; other targets include it
	@$(PYTHON) -m scripts.archive

demo-clean: ## remove all files of `make demo`
	$(call build,$(COMMAND))
	@.venv/bin/megatron-dpo demo-clean

render: ## render every file of values/ into .tools/render
	$(call build,chart $(HELM))
	@mkdir -p .tools/render
	@for file in values/*.yaml values/baselines/*.yaml; do name=$$(basename "$$file" .yaml); under=; \
		case $$name in e2e|seed-*) under="-f values/a100-2node.yaml";; esac; \
		.tools/bin/helm template "$$name" chart $$under -f "$$file" >".tools/render/$$name.yaml"; \
		echo ".tools/render/$$name.yaml"; done

##@ Check it
test: ## lint, types and tests, without real trainings unless what they run has changed
	$(call build,chart lint types $(TESTED) $(if $(CHANGED),$(REAL)))
	@$(TEST) $(if $(CHANGED),,-m "not real") $(PYTEST)

test-real: ## the other tests that need no cluster: real trainings with ms-swift
	$(call build,chart $(TESTED) $(REAL))
	@$(TEST) -m real $(PYTEST)

check: ## lint, types and all tests that need no cluster
	$(call build,chart lint types $(TESTED) $(REAL))
	@$(TEST) --keep-durations $(PYTEST)

test-next: ## tests that depend on the ms-swift version, with another one that the chart supports (NEXT=4.4.1)
	$(call build,chart $(TESTS) $(ORACLE) $(ORACLE_OTHERS) $(HELM))
	@SWIFT=$(NEXT) CASES=200 $(TEST) $(NEXT_TESTS) $(PYTEST)

test-chart: ## only the tests of the chart, with chart-testing and kubeconform
	$(call build,chart $(TESTS) $(HELM) $(HELM3) $(CHECKERS))
	@$(TEST) tests/chart $(PYTEST)

test-renderer: ## compare the renderer of the tests with Helm 4 and Helm 3 on all wrong configurations
	$(call build,chart $(TESTS) $(HELM) $(HELM3) $(CHECKERS))
	@RENDERED=100000 $(TEST) tests/chart/test_renderer.py $(PYTEST)

refusals: ## wrong configurations: what refuses each, and after how long (SUBJECTS=...)
	$(call build,chart $(TESTS) $(HELM) $(CHECKERS))
	@.venv/bin/python -m tests.refusals $(SUBJECTS)

fixes: ## wrong configurations: what their own remedies (plan --fix) make of them (SUBJECTS=...)
	$(call build,chart $(TESTS) $(HELM) $(CHECKERS))
	@.venv/bin/python -m tests.refusals.fixes $(SUBJECTS)

field: ## the rows that people bring: the launcher's verdict on each next to the right one, each ms-swift
	$(call build,$(TESTS) $(TRAIN) $(TRAIN_OTHERS))
	@.venv/bin/python -m tests.field.run && .venv/bin/python -m tests.field.outcomes

attribution: ## messages of failed processes: the class found for each, as a confusion matrix
	$(call build,$(TESTS) $(TRAIN) $(ORACLE))
	@.venv/bin/python -m tests.attribution

hangs: ## inject HANGS hangs into real ranks under real launchers: what is detected, and which rank is named
	$(call build,$(TESTS) $(TRAIN))
	@.venv/bin/python -m tests.hang --cases $(HANGS) --seed $(HANG_SEED) --jobs $(HANG_JOBS)

faults: ## inject the faults of tests/faults/catalogue (LEVEL=process|cluster, NAMES=...)
	$(call build,chart $(TESTS) $(if $(filter cluster,$(LEVEL)),$(TRAIN) $(HELM) $(HELM3) $(CLUSTER)))
	@$(if $(filter cluster,$(LEVEL)),.venv/bin/python -m tests.e2e.image; $(WITH_CLUSTER)) \
		.venv/bin/python -m tests.faults --level $(LEVEL) $(NAMES)

crash: ## crash the code of markers and checkpoints at POINTS points between its file operations
	$(call build,$(TESTS))
	@.venv/bin/python -m tests.faults.crash --points $(POINTS)

fuzz: ## render FUZZ generated values files
	$(call build,chart $(TESTS) $(HELM) $(CHECKERS))
	@echo "FUZZ=$(FUZZ) FUZZ_SEED=$(FUZZ_SEED)"
	@FUZZ=$(FUZZ) FUZZ_SEED=$(FUZZ_SEED) $(TEST) --timeout 0 tests/fuzz $(PYTEST)

differential: ## compare our rules with the checks of ms-swift and megatron-core on CASES runs
	$(call build,chart $(TESTS) $(TRAIN) $(ORACLE) $(HELM))
	@echo "CASES=$(CASES) CASES_SEED=$(FUZZ_SEED)"
	@CASES=$(CASES) CASES_SEED=$(FUZZ_SEED) $(TEST) --timeout 0 tests/differential $(PYTEST)

differential-api: ## compare the chart with an API server on CASES generated pod parts (Linux)
	$(call build,chart $(TESTS) $(HELM) $(CHECKERS) $(addprefix $(STAMPS)/go-,etcd kubernetes $(OTHER)))
	@echo "CASES=$(CASES) CASES_SEED=$(FUZZ_SEED)"
	@CASES=$(CASES) CASES_SEED=$(FUZZ_SEED) .venv/bin/python -m pytest --timeout 0 tests/api $(PYTEST)

e2e: ## all tests that need a cluster, on two that it starts (Linux, root); about half an hour on 2 cores
	$(call build,chart $(TESTS) $(TRAIN) $(HELM) $(HELM3) $(CLUSTER) $(CHECKERS))
	@.venv/bin/python -m tests.e2e.image
	@$(call with_clusters,$(CLUSTERS)) .venv/bin/python -m pytest --timeout 900 --durations 0 \
		--numprocesses $(words $(CLUSTERS)) tests/e2e $(PYTEST)

e2e-next: ## the tests on the cluster that train, with another ms-swift that the chart supports (NEXT=4.4.1)
	$(call build,chart $(TESTS) $(TRAIN) $(STAMPS)/train-$(NEXT) $(HELM) $(HELM3) $(CLUSTER))
	@.venv/bin/python -m tests.e2e.image
	@export SWIFT=$(NEXT); $(WITH_CLUSTER) .venv/bin/python -m pytest --timeout 900 tests/e2e/test_main_job.py $(PYTEST)

soak: ## real training on the cluster with a fault every 3 minutes for half an hour (SOAK=options)
	$(call build,chart $(TESTS) $(TRAIN) $(HELM) $(CLUSTER))
	@.venv/bin/python -m tests.e2e.image
	@$(WITH_CLUSTER) .venv/bin/python -m tests.e2e.soak $(SOAK)

bench-cluster: ## measure admission and start of gangs of up to 1,024 pods; JSON result
	$(call build,chart $(TESTS) $(TRAIN) $(HELM) $(CLUSTER) $(STAMPS)/go-kwok)
	@.venv/bin/python -m tests.e2e.image
	@$(WITH_CLUSTER) .venv/bin/python -m tests.e2e.bench

slurm: ## preempt a run on a real Slurm of two local nodes; root and Slurm's packages, of which it installs none
	$(call build,$(TESTS) $(TRAIN))
	@.venv/bin/python -m pytest --timeout 900 tests/slurm $(PYTEST)

lint: $(TESTS) ## ruff, shellcheck, yamllint, codespell
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --quiet --check
	@.venv/bin/shellcheck .ci/run scripts/tools/*.sh scripts/slurm/dpo.sbatch
	@.venv/bin/yamllint --strict .github ct.yaml values chart/Chart.yaml chart/values.yaml chart/networks chart/ci
	@.venv/bin/codespell --quiet-level 3 launchers megatron_dpo scripts tests/e2e tests/*.md tests/*/*.md values chart Makefile README.md CHANGELOG.md

types: $(TESTS) ## mypy --strict
	@.venv/bin/mypy

calibrate: ## compare predicted memory and step time with measured and published runs
	$(call build,$(COMMAND))
	@.venv/bin/python -m scripts.dev.calibrate

##@ Measure on GPUs (on a host with the training stack; TOKENIZER=folder RESULTS=folder)
bench-gpu: ## speed, saves and restarts on this host's GPUs; 25 minutes on one or two (VISIT=, LINES=)
	@$(PYTHON) -m tests.bench visit $(VISIT) $(TOKENIZER) $(RESULTS) $(LINES)

##@ Cluster on this machine
cluster: ## start Kubernetes with JobSet, Kueue and three nodes (BACKEND=auto|kind|processes)
	$(call build,$(TESTS) $(CLUSTER))
	@$(CLUSTER_COMMAND) up --backend $(BACKEND)

cluster-down: ## stop the cluster and remove everything except its logs
	$(call build,$(TESTS))
	@$(CLUSTER_COMMAND) down

##@ Regenerate
durations: ## rewrite tests/durations.json, the processor time that each file of tests may take
	$(call build,chart $(TESTED) $(REAL))
	@$(TEST) --update-durations $(PYTEST)

golden: ## rewrite the golden manifests of tests/chart, wordings of tests/refusals, screens of tests/scripts
	$(call build,chart $(TESTS) $(HELM))
	@.venv/bin/python -m pytest -q tests/chart tests/refusals tests/scripts/status --update-golden

figures: ## rewrite the tables of values/FIGURES.md from predictions and results
	$(call build,chart $(COMMAND) $(HELM))
	@.venv/bin/python -m scripts.dev.figures

flags: ## rewrite the chart's tables and schema of training flags from the releases of ms-swift
	$(call build,$(COMMAND) $(TRAIN) $(TRAIN_OTHERS))
	@.venv/bin/python -m scripts.dev.flags

pod-schema: ## rewrite the pod parts of the values' schema from the lowest supported Kubernetes
	$(call build,$(TESTS))
	@.venv/bin/python -m scripts.dev.pod_schema

values-table: ## rewrite the table of chart/VALUES.md from chart/values.yaml
	$(call build,$(COMMAND))
	@.venv/bin/python -m scripts.dev.values_table

locks: $(UV) ## rewrite the locks from pyproject.toml
	@$(LOCK) -o launchers/requirements-cpu.txt --group train
	@for v in $(RELEASES); do \
		$(call LOCK_WITH,launchers/requirements-cpu-$$v.txt,launchers/requirements-cpu.txt,--group train-$$v); done
	@for v in "" $(RELEASES:%=-%); do \
		$(LOCK:3.11=3.12) -o tests/differential/requirements$$v.txt --no-deps tests/differential/requirements$$v.in; done
	@$(IMAGE_LOCK) -o scripts/image/requirements.txt --group image
	@$(LOCK) -o scripts/requirements.txt pyproject.toml -c launchers/requirements-cpu.txt
	@$(call LOCK_WITH,tests/launchers/requirements-trackers.txt,launchers/requirements-cpu.txt,--group trackers)
	@$(LOCK) -o tests/engines/requirements.txt --no-deps tests/engines/requirements.in
	@$(call LOCK_WITH,tests/requirements.txt,scripts/requirements.txt,--group tests -c launchers/requirements-cpu.txt)

##@ Release
package: ## package the chart in dist/; equal sources give equal bytes
	$(call build,chart $(HELM))
	@$(PYTHON) -m scripts.dev.release.package

wheel: $(UV) ## build the launcher as a wheel in dist/, for images (launcher.from: image)
	@$(UV) build --quiet --wheel --out-dir dist

release: ## set VERSION=x.y.z, build package, wheel, SBOM and digests in dist/ (SIGN_KEY=..., PUBLISH=1)
	$(call build,$(COMMAND) $(HELM))
	@.venv/bin/python -m scripts.dev.release $(if $(SIGN_KEY),--sign $(SIGN_KEY)) $(if $(PUBLISH),--publish) \
		$(or $(VERSION),$(error VERSION is empty; write make release VERSION=x.y.z))

release-check: ## sign the package in a registry here, verify it, read its SBOM back; builds cosign, 4 minutes
	$(call build,chart $(TESTS) $(HELM) $(HELM3) $(addprefix $(STAMPS)/go-,cosign registry))
	@.venv/bin/python -m pytest tests/scripts/dev/release $(PYTEST)

##@ Set up
setup: ## install all tools; other targets install what they need
	$(call build,$(TESTED) $(REAL))

setup-e2e: ## the same, and the programs and the image of the cluster, all of Go's at once
	$(call build,$(TESTED) $(REAL) $(CLUSTER))
	@.venv/bin/python -m tests.e2e.image

clean: ## remove everything that make installed or generated
	@if [[ -d .tools/cluster/run ]]; then $(CLUSTER_COMMAND) down; fi
	rm -rf chart/charts/launcher-archive/*.tar.bz2 chart/launchers.digest .venv .tools .demo dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(UV): scripts/tools/uv.sh
	@echo "setup: uv"
	@scripts/tools/uv.sh $(PYTHON)
	@touch $@
	@mkdir -p $(STAMPS)

$(COMMAND): $(UV) scripts/requirements.txt pyproject.toml
	@echo "setup: .venv, the command"
	@$(UV) venv --quiet --allow-existing --python $$(command -v $(PYTHON)) .venv
	@$(INSTALL) --python .venv -r scripts/requirements.txt
	@$(UV) pip install --quiet --python .venv --no-deps --offline --editable .
	@touch $@

$(TESTS): $(COMMAND) tests/requirements.txt
	@echo "setup: .venv, the tests"
	@$(INSTALL) --python .venv -r scripts/requirements.txt -r tests/requirements.txt
	@touch $@

$(TRAIN): $(UV) launchers/requirements-cpu.txt
	@echo "setup: .tools/train, the training path on CPU (5.5 GB, about a minute)"
	@$(UV) venv --quiet --allow-existing --python $$(command -v $(PYTHON)) .tools/train
	@$(INSTALL) --python .tools/train -r launchers/requirements-cpu.txt
	@touch $@

$(TRAIN_OTHERS): $(STAMPS)/train-%: $(TRAIN) launchers/requirements-cpu-%.txt
	@echo "setup: .tools/train-$*, the same with ms-swift $* (links to the same files where versions are equal)"
	@$(UV) venv --quiet --allow-existing --python $$(command -v $(PYTHON)) .tools/train-$*
	@$(INSTALL) --python .tools/train-$* -r launchers/requirements-cpu-$*.txt \
		-r <($(REST) launchers/requirements-cpu-$*.txt launchers/requirements-cpu.txt)
	@touch $@

# The wheels are for Python 3.12, their sources run with 3.11.
$(ORACLE) $(ORACLE_OTHERS): $(STAMPS)/oracle%: $(STAMPS)/train% tests/differential/requirements%.txt
	@echo "setup: .tools/oracle$*, the checks of the megatron-core that goes with .tools/train$*"
	@rm -rf .tools/oracle$*
	@$(INSTALL) --no-deps --python-version 3.12 --python-platform x86_64-manylinux_2_28 --target \
		.tools/oracle$* -r tests/differential/requirements$*.txt
	@touch $@

$(ENGINES): $(TESTS) tests/engines/requirements.txt tests/engines/fetch.py
	@echo "setup: .tools/engines, the optimizer of seven releases of Transformer Engine"
	@$(INSTALL) --python .venv --target .tools/engines/pip -r tests/engines/requirements.txt
	@.venv/bin/python -m tests.engines.fetch
	@touch $@

$(TRACKERS): $(TRAIN) tests/launchers/requirements-trackers.txt
	@echo "setup: .tools/trackers, the libraries of W&B and SwanLab, used with .tools/train"
	@rm -rf .tools/trackers
	@$(INSTALL) --no-deps --python .tools/train --target .tools/trackers -r tests/launchers/requirements-trackers.txt
	@touch $@

$(STAMPS)/editor: tests/editor/package-lock.json
	@echo "setup: .tools/editor, the language server of editors"
	@mkdir -p $(STAMPS) .tools/editor
	@cp tests/editor/package.json tests/editor/package-lock.json .tools/editor
	@npm ci --prefix .tools/editor --cache .tools/npm --ignore-scripts --no-audit --no-fund --silent
	@touch $@

$(HELM): scripts/tools/helm.sh
	@mkdir -p $(STAMPS)
	@scripts/tools/helm.sh main
	@touch $@

$(HELM3): scripts/tools/helm.sh $(wildcard tests/e2e/tools/renderer/go.*)
	@mkdir -p $(STAMPS)
	@scripts/tools/helm.sh compare
	@touch $@

# Not at the same time as what shares libraries with them: Go would compile these twice.
$(HELM3) $(CHECKERS): | $(HELM)
$(STAMPS)/go-coredns $(STAMPS)/go-jobset: | $(STAMPS)/go-kueue

$(STAMPS)/go-%: scripts/tools/go.sh $$(wildcard tests/e2e/tools/$$*/*)
	@mkdir -p $(STAMPS)
	@scripts/tools/go.sh $*
	@touch $@

.PHONY: help demo slurm field chart demo-clean render test test-real check test-next test-chart test-renderer durations refusals fixes attribution hangs faults crash fuzz differential e2e e2e-next soak bench-cluster bench-gpu figures cluster cluster-down lint types calibrate golden flags locks package wheel setup setup-e2e differential-api pod-schema values-table release release-check clean
