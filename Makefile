# `make` alone lists the targets.
GO ?= go
# Slow packages first, so that none is left over at the end. One for each processor and one more, since many
# tests wait. Linking takes half as long without debugging information.
PACKAGES = ./internal/acceptance ./cmd/... ./internal/workspace/... ./...
TESTFLAGS = -p $(shell expr $$(nproc) + 1) -ldflags='-s -w'
# What `make test` runs the tests with.
TEST ?= $(GO) test $(TESTFLAGS) $(PACKAGES)
# What `go run` and the tests get by default needs no C compiler either.
export CGO_ENABLED = 0

PREFIX ?= /usr/local
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build install release test soak acceptance walls lint bench docs run generate

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the static program, into bin/forage-ctl
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/forage-ctl ./cmd/forage-ctl

install: build ## the program, completions and man pages, below PREFIX (default /usr/local; also ~/.local)
	@./.ci/install bin/forage-ctl $(DESTDIR)$(PREFIX)

release: ## archives for x86-64 and arm64, with checksums, into bin/release
	@rm -rf bin/release && mkdir -p bin/release
	@$(MAKE) --no-print-directory build
	@for arch in amd64 arm64; do \
		name=forage-ctl-$(VERSION)-linux-$$arch && \
		GOOS=linux GOARCH=$$arch $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/release/$$name/program ./cmd/forage-ctl && \
		FORAGE_PROGRAM=bin/release/$$name/program ./.ci/install bin/forage-ctl bin/release/$$name && \
		rm bin/release/$$name/program && cp LICENSE README.md bin/release/$$name/ && \
		tar -C bin/release --owner=0 --group=0 -czf bin/release/$$name.tar.gz $$name && rm -r bin/release/$$name; \
	done
	@cd bin/release && sha256sum *.tar.gz | tee SHA256SUMS

test: ## install what tests need (where that is allowed), then run all of them
	./.ci/install-deps
	$(TEST)

soak: ## all of CI as root, and what no change waits for: 500 kill rounds, crowds, rare cases, fuzzing (hours)
	FORAGE_SOAK=1 ./.ci/run

acceptance: ## install real agents into the cache folder and run the tests that stand for the user
	./.ci/install-deps --agents
	$(GO) test -count=1 -v ./internal/acceptance

walls: ## the conformance and escape suites on every runtime that can be installed here, as you; a table
	./.ci/walls

lint: ## gofmt, go vet, staticcheck, import direction, shellcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')) && [ -z "$$unformatted" ] || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	$(GO) test ./internal/imports
	@if command -v shellcheck >/dev/null; then shellcheck -S warning .ci/run .ci/install-deps .ci/docs .ci/man .ci/install .ci/walls; else echo 'shellcheck is not installed: scripts were not checked'; fi

bench: ## compare with the peers that are installed, and print ratios
	$(GO) run ./bench

docs: ## build the book (mdbook), or check its links and its generated pages
	./.ci/docs

generate: ## write the generated pages of the reference anew
	./.ci/docs --write

run: build ## run a shell in a sandbox that sees this folder
	./bin/forage-ctl run -w . -- sh
