# Everything a newcomer runs. `make help` lists it.
SHELL := /bin/bash
.DEFAULT_GOAL := help
CLUSTER ?= local
NAME ?= ringmaster
NODES ?= 3
F ?=
REGISTRY ?=

.PHONY: demo test unit lint lint-all transcripts figure soak images wheel release reproduce cluster-up cluster-down clean help

demo: ## set everything up and run the main job: CLUSTER=local (default) or CLUSTER=existing with KUBECONFIG
	@CLUSTER=$(CLUSTER) NAME=$(NAME) deploy/demo.sh

test: ## build everything and run every test: unit, fuzz, integration, runtime, end to end
	@tests/run.sh all

unit: ## build the dev preset and run the unit tests alone
	@tests/run.sh unit

lint: ## check the files that differ from main (LINT_BASE= names another commit): format, includes, clang-tidy and more
	@tests/lint/run.sh changed

lint-all: ## the same for every file, without clang-tidy
	@tests/lint/run.sh all

transcripts: ## record tests/transcripts again: after a change of what operator, launcher, agents or ranks say
	@cmake --preset dev >/dev/null && cmake --build --preset dev --target transcript_test
	@RINGMASTER_RECORD=1 build/dev/tests/transcripts/transcript_test --gtest_brief=1 && git status --short tests/transcripts

figure: ## measure one figure of bench/README.md: make figure F=B1
	@[ -n "$(F)" ] || { echo "say which figure: make figure F=B1 (bench/README.md lists them)" >&2; exit 2; }
	@bench/figure.sh $(F)

soak: ## 200 random schedules of faults against real processes, programs of others through every fault, Hugging Face's Trainer in place on the local cluster, 200 of the operator, 30 minutes of one operator, all root file systems of B18, 100 faults of B21, a cold build without unity; COUNT=, SEED=, MINUTES=, FAULTS=
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

reproduce: ## build the images that start from scratch twice from nothing and compare their bits
	@deploy/local/prerequisites.sh build images
	@release/reproduce.sh

cluster-up: ## start the local cluster: NAME=ringmaster NODES=3
	@deploy/local/prerequisites.sh cluster
	@deploy/local/build.sh
	@deploy/local/cluster.sh --name $(NAME) up $(NODES)

cluster-down: ## stop the local cluster and remove all of it: NAME=ringmaster
	@deploy/local/cluster.sh --name $(NAME) down

clean: ## remove what was built in the tree (the cache outside it stays)
	@rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
