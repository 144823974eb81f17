# The way in; the work is done by CMake (CMakePresets.json) and tools/. `make` lists the targets.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
BIN := build/release/bin
PREFIX ?= /usr/local
export TEXT DESTDIR

.DEFAULT_GOAL := help
.PHONY: help bootstrap build test demo lint bench bench-setup install asan tsan dev clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
	@echo "  JOBS=N limits the parallel jobs (now $(JOBS)); make demo TEXT=FILE uses a text of yours"

bootstrap: ## install the Debian packages that are missing for build, test and demo
	@tools/bootstrap.sh

build: bootstrap ## build taper into build/release/bin, and its tests
	@$(call compile,release)

test: build ## build, then run all tests
	@ctest --preset release -j$(JOBS)

demo: bootstrap ## train, taper, fold and write text; 2 to 5 minutes on 2 cores
	@$(call compile,release) --target taper
	@tools/demo.sh

lint: ## format, clang-tidy, include rule, file sizes
	@tools/bootstrap.sh lint
	@JOBS=$(JOBS) tools/lint.sh

bench: build ## time decoding of the demo's models against the machine's read bandwidth
	@test -e runs/demo/folded || { echo "error: no runs/demo/folded to measure: run 'make demo' first"; exit 2; }
	@$(BIN)/taper bench decode baseline=runs/demo/baseline explicit=runs/demo/taper:gate=0 folded=runs/demo/folded

bench-setup: ## install PyTorch in .venv, the rival of the benches
	@tools/bench_setup.sh

install: bootstrap ## install below PREFIX (/usr/local); DESTDIR is put before it
	@$(call compile,release) --target taper taper_pages
	@cmake --install build/release --prefix $(PREFIX)

asan: bootstrap ## build and run all tests under the address and undefined-behaviour sanitizers
	@$(call compile,asan)
	@ctest --preset asan -j$(JOBS)

tsan: bootstrap ## the pass, the trainer, the engine and the pool under the thread sanitizer
	@$(call compile,tsan) --target core_tests ops_tests train_tests infer_tests
	@ctest --preset tsan -j$(JOBS)

dev: bootstrap ## build with debug information, assertions and warnings as errors, and run all tests
	@$(call compile,dev)
	@ctest --preset dev -j$(JOBS)

clean: ## remove all build folders; keeps .venv and runs
	rm -rf build

# compile PRESET: configures only when there is no build folder yet (CMake redoes it by itself when needed).
compile = { test -f build/$(1)/build.ninja || cmake --preset $(1) >build/$(1).log 2>&1 || \
	{ cat build/$(1).log; exit 1; }; } && cmake --build --preset $(1) -j$(JOBS)
