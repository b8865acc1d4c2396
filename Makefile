# `make` or `make help` lists what there is to do.

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME  ?= 5s
# The tools have a module file of their own, so that they never raise the program's dependencies.
TOOLS     := -modfile=.ci/tools.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the daemon on an embedded Redis and a simulated SureM; needs nothing but Go
	go run ./cmd/syncer demo

.PHONY: build
build: ## one static binary, ./syncer
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o syncer ./cmd/syncer

# -count=1: tests that drive the built binary must not be answered from the test cache.
.PHONY: test
test: deps ## go vet and every test under the race detector, on a real redis-server
	go vet ./...
	go test -race -count=1 -timeout 10m ./...

.PHONY: lint
lint: ## golangci-lint with .golangci.yml (the first run builds it, about a minute)
	go tool $(TOOLS) golangci-lint run ./...

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each (5s)
	@grep -rHo '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' cmd internal \
	| sed 's|/[^/]*:func | |' | while read -r dir target; do \
		echo "== $$dir $$target"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$dir" </dev/null || exit 1; \
	done

.PHONY: bench-flight
bench-flight: ## single-flight beside its peers, interleaved, as a table (two minutes)
	cd internal/flight/bench && go run .

.PHONY: model
model: ## the fence's model in its larger worlds (four minutes, 3 GB; the smaller ones run with the tests)
	go test -count=1 -timeout 60m -v -run Interleaving ./internal/templates/fencemodel -args -deep

# The race detector needs a C compiler, the tests a redis-server and, for the status page, Chromium.
.PHONY: deps
deps: ## installs what the tests need (root on Debian), or says what is missing
	@missing=; \
	command -v redis-server >/dev/null || missing="redis-server"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v "$$(go env CC)" >/dev/null || missing="$$missing gcc libc6-dev"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	else \
		echo "make test needs these, please install them first: $$missing" >&2; exit 1; \
	fi
