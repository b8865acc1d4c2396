# `make` or `make help` lists what there is to do.

VERSION   ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
FUZZTIME  ?= 5s
DIST      ?= dist
ARCHS     ?= amd64 arm64
# The tools have a module file of their own, so that they never raise the program's dependencies.
TOOLS     := -modfile=.ci/tools.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## the daemon on an embedded Redis and a simulated SureM; needs nothing but Go
	go run ./cmd/syncer demo

.PHONY: build
build: ## one static binary, ./syncer
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o syncer ./cmd/syncer

# The same sources and Go version give the same bytes, wherever and whenever they are built.
.PHONY: release
release: ## static binaries for linux, amd64 and arm64, with checksums, in dist/
	@mkdir -p $(DIST) && rm -f $(DIST)/syncer-linux-* $(DIST)/SHA256SUMS
	for arch in $(ARCHS); do \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" \
			-o $(DIST)/syncer-linux-$$arch ./cmd/syncer || exit 1; \
	done
	@cd $(DIST) && sha256sum syncer-linux-* | tee SHA256SUMS

# -count=1: tests that drive the built binary must not be answered from the test cache.
# deploy/openapi.yaml is held against the daemon by a module of its own.
.PHONY: test
test: deps ## go vet and every test under the race detector, on a real redis-server
	go vet ./...
	go test -race -count=1 -timeout 10m ./...
	cd internal/httpapi/openapi && go vet . && go test -count=1 .
	$(MAKE) --no-print-directory test-toxic

# toxiproxy has a module of its own, so that it is no dependency of the program.
.PHONY: test-toxic
test-toxic: deps ## passes and reads with toxiproxy before Redis and before SureM
	cd internal/e2e/toxic && go vet ./... && go test -race -count=1 -timeout 10m ./...

# No race detector: the code under test is other processes.
.PHONY: test-deploy
test-deploy: deps-deploy ## what deploy/ gives, held against Kubernetes' types, promtool, systemd, buildah, Node
	cd deploy/test && go vet ./... && go test -count=1 -timeout 20m ./...

.PHONY: lint
lint: ## golangci-lint with .golangci.yml (the first run builds it, about a minute)
	go tool $(TOOLS) golangci-lint run ./...
	cd internal/bench && go vet ./...
	cd internal/flight/bench && go vet ./...

# On a busy machine Go now and then calls the end of FUZZTIME a failure, "context deadline exceeded"
# (go.dev/issue/75804): that is tried again.
.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each (5s)
	@grep -rHo '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' cmd internal \
	| sed 's|/[^/]*:func | |' | while read -r dir target; do \
		echo "== $$dir $$target"; \
		for try in 1 2 3; do \
			out=$$(go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$dir" 2>&1 </dev/null) && break; \
			case "$$try$$out" in [12]*"context deadline exceeded"*) ;; *) echo "$$out"; exit 1 ;; esac; \
		done; \
		echo "$$out" | grep execs | tail -1; \
	done

.PHONY: bench
bench: ## passes, hits, misses and rest beside what could be in their place, as tables (five minutes; needs wrk)
	cd internal/bench && go run .

.PHONY: bench-flight
bench-flight: ## single-flight beside its peers, interleaved, as a table (two minutes)
	cd internal/flight/bench && go run .

.PHONY: sim
sim: ## how long an entry can be wrong, simulated: the tables of deploy/staleness.md (some minutes)
	go run ./internal/order/sim

.PHONY: model
model: ## the fence's model in its larger worlds (eight minutes on a busy machine, 2.5 GB; the smaller ones run with the tests)
	go test -count=1 -timeout 60m -v -run Interleaving ./internal/templates/fencemodel -args -deep

# Installs what $$missing names.
define INSTALL
if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing; \
	else \
		echo "the tests need these, please install them first: $$missing" >&2; exit 1; \
	fi
endef

# The race detector needs a C compiler, the tests a redis-server and, for the status page, Chromium.
.PHONY: deps
deps: ## installs what the tests need (root on Debian), or says what is missing
	@missing=; \
	command -v redis-server >/dev/null || missing="redis-server"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	command -v "$$(go env CC)" >/dev/null || missing="$$missing gcc libc6-dev"; \
	$(INSTALL)

.PHONY: deps-deploy
deps-deploy: deps ## the same for test-deploy
	@missing=; \
	command -v promtool >/dev/null || missing="prometheus"; \
	command -v systemd-analyze >/dev/null || missing="$$missing systemd"; \
	command -v buildah >/dev/null || missing="$$missing buildah"; \
	command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	$(INSTALL)
