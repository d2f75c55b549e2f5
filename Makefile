# The commands for users and contributors. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CLUSTER ?= local
NAME ?= ringmaster
NODES ?= 3
F ?=
REGISTRY ?=

.PHONY: demo test unit lint lint-all transcripts figure soak images wheel release reproduce cluster-up cluster-down clean help

demo: ## run the demo: install Ringmaster on a cluster and train on handwritten digits; CLUSTER=local (default) or CLUSTER=existing with KUBECONFIG
	@CLUSTER=$(CLUSTER) NAME=$(NAME) deploy/demo.sh

test: ## build everything and run every test: unit, fuzz, integration, runtime, end to end
	@tests/run.sh all

unit: ## build the dev preset and run only the unit tests
	@tests/run.sh unit

lint: ## check the files that differ from main (LINT_BASE= names another commit): format, includes, clang-tidy and more
	@tests/lint/run.sh changed

lint-all: ## run the checks of `make lint` on every file, without clang-tidy
	@tests/lint/run.sh all

transcripts: ## record tests/transcripts again, after a change of the messages of operator, launcher, agents or ranks
	@cmake --preset dev >/dev/null && cmake --build --preset dev --target transcript_test
	@RINGMASTER_RECORD=1 build/dev/tests/transcripts/transcript_test --gtest_brief=1 && git status --short tests/transcripts

figure: ## measure one figure of bench/README.md: make figure F=B1
	@[ -n "$(F)" ] || { echo "say which figure: make figure F=B1 (bench/README.md lists them)" >&2; exit 2; }
	@bench/figure.sh $(F)

soak: ## run the long tests: 200 random schedules of faults with real processes and 200 with fake GPUs, third-party programs with every fault, Hugging Face's Trainer in place on the local cluster, 200 random schedules for the operator, 30 minutes of one operator, all root file systems of B18, 100 faults of B21, a build without cache and unity; COUNT=, SEED=, MINUTES=, FAULTS=
	@bench/soak.sh $(or $(COUNT),200) $(or $(SEED),1)
	@bench/real_programs_soak.sh
	@bench/operator_soak.sh $(or $(MINUTES),30) $(or $(SEED),1)
	@bench/programs_soak.sh $(or $(FAULTS),100) $(or $(SEED),1)
	@bench/cold_build.sh

images: ## build the operator's, the tools' and the worker's images as OCI archives
	@deploy/local/prerequisites.sh build images
	@images/build.sh

wheel: ## build the wheel of the Python package: build/dist/ringmaster-VERSION-py3-none-any.whl
	@worker/python/build_wheel.py build/dist

release: ## make a release of this commit and push it: REGISTRY=registry.example.com/team (docs/release.md)
	@[ -n "$(REGISTRY)" ] || { echo "say where to: make release REGISTRY=registry.example.com/team" >&2; exit 2; }
	@deploy/local/prerequisites.sh build images
	@release/release.sh $(REGISTRY)

reproduce: ## build the images without a base image twice, each time from nothing, and compare them
	@deploy/local/prerequisites.sh build images
	@release/reproduce.sh

cluster-up: ## start the local cluster: NAME=ringmaster NODES=3
	@deploy/local/prerequisites.sh cluster
	@deploy/local/build.sh
	@deploy/local/cluster.sh --name $(NAME) up $(NODES)

cluster-down: ## stop the local cluster and remove all its files: NAME=ringmaster
	@deploy/local/cluster.sh --name $(NAME) down

clean: ## remove the builds in the tree (the cache outside of the tree is kept)
	@rm -rf build

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
