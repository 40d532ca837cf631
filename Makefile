# A front for CMake and CTest; `make help` lists the targets.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
LABEL ?=
TARGETS ?= all
CMAKE_FLAGS ?=
SOURCES = $(shell find core optimizer runtime datasets results tests -name '*.cpp' -o -name '*.h' -o -name '*.c')

ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR ?= Ninja
endif

.PHONY: all setup demo test soak bench bench-traffic install format format-check clean help

all: ## build into build/, executables in build/bin/ (the default)
	cmake -S . -B $(BUILD) $(CMAKE_FLAGS)
	cmake --build $(BUILD) --parallel $(JOBS) --target $(TARGETS)

setup: ## install what is missing (Debian 12), elsewhere say what is needed
	@cmake/setup.sh

demo: setup ## train LeNet-5 on Fashion-MNIST over two local ranks, from profile to report
	$(MAKE) all TARGETS="sluice sluice-dataset sluice-run"
	jobscripts/demo.sh $(BUILD)

test: setup ## build and run all tests (LABEL=quick leaves the long ones out, as CI does)
	$(MAKE) all
	ctest --test-dir $(BUILD) --label-regex '$(if $(LABEL),^$(LABEL)$$,.)' --parallel $(JOBS) --output-on-failure --no-tests=error

soak: ## run the long tests alone (CMAKE_FLAGS=-DSLUICE_SOAK_ROUNDS=500: longer still)
	$(MAKE) test LABEL=soak

bench: ## time the planner on the models of tests/data, beside the figures of others, and the simulator
	$(MAKE) all TARGETS="planner_bench msr_comparison simulator_bench"
	$(BUILD)/bin/planner_bench
	$(BUILD)/bin/msr_comparison
	$(BUILD)/bin/simulator_bench

bench-traffic: ## time multicasts on a virtual cluster (root, ten minutes) and renew the tables of docs/traffic.md
	$(MAKE) all TARGETS="sluice sluice-run sluice-dataset mpich_shim traffic_bench traffic_check"
	SLUICE_CLUSTER_PRELOAD=$(abspath $(BUILD))/tests/cluster/libmpich_shim.so \
	  tests/cluster/cluster.sh with 4 1gbit tests/bench/traffic_bench.sh $(abspath $(BUILD) $(BUILD)/traffic)
	tests/bench/traffic_tables.py $(BUILD)/traffic docs/traffic.md docs/traffic/bytes.svg

install: all ## install executables, job scripts and documents under PREFIX (default /usr/local)
	cmake --install $(BUILD) --prefix $(PREFIX)

format: ## format the C++ sources in place
	clang-format -i $(SOURCES)

format-check: ## fail if a C++ source is not formatted
	clang-format --dry-run --Werror $(SOURCES)

clean: ## remove the build trees
	rm -rf $(BUILD) build-debug build-sanitize

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
	@echo 'Variables: BUILD PREFIX JOBS LABEL TARGETS CMAKE_FLAGS (handed to CMake, e.g. -DHDF5_ROOT=DIR)'
