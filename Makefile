# Anabranch. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# One flag set everywhere: another one would compile everything again.
export GOFLAGS := -trimpath -buildvcs=false
export CGO_ENABLED ?= 0
LDFLAGS := -s -w -X main.version=$(VERSION)

# Tools are built once per version, below a folder that git ignores.
TOOLS         := $(CURDIR)/.anabranch/tools
GOLANGCI_LINT := $(TOOLS)/golangci-lint@v2.15.0/golangci-lint
BUF           := $(TOOLS)/buf@v1.75.0/buf
PROTOC_GO     := $(TOOLS)/protoc-gen-go@v1.36.12/protoc-gen-go
PROTOC_GRPC   := $(TOOLS)/protoc-gen-go-grpc@v1.6.2/protoc-gen-go-grpc
BENCHSTAT     := $(TOOLS)/benchstat@v0.0.0-20260908200009-22c9c6c9d4da/benchstat

# What the card is made of.
BENCH ?= Best/predicted|Match|Read$$|Request|Latency|OpenStreams

COMMANDS := anabranch anabranch-controlplane anabranch-router

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what build, demo and tests need and this machine lacks.
	@./.github/deps.sh

.PHONY: demo
demo: deps build ## The whole system on loopback, in the foreground.
	@bin/anabranch dev

.PHONY: build
build: web/dist/index.html ## The three commands, console included, into bin/.
	@mkdir -p bin
	go build -ldflags '$(LDFLAGS)' -o bin/ $(addprefix ./cmd/,$(COMMANDS))

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json web/index.html $(shell find web/src web/tools -type f ! -name '*.gen.ts' 2>/dev/null) web/vite.config.ts api/openapi.yaml
	cd web && npm run --silent build
	@touch $@

# In MB: room for a cold build cache, with and without -race, and for test binaries while they run.
SPACE ?= 6144

.PHONY: space
space: ## See whether there is room on disk for what tests build.
	@for dir in "$$(go env GOCACHE)" "$${TMPDIR:-/tmp}"; do \
		mkdir -p "$$dir"; free=$$(df -Pm "$$dir" | awk 'NR == 2 {print $$4}'); \
		if [ "$$free" -lt $(SPACE) ]; then \
			echo "$$dir: $$free MB free, and building the tests may take $(SPACE): 'go clean -cache' makes room" >&2; exit 1; \
		fi; \
	done

# Simulations have one goroutine each and are ten times slower under -race: there they are tested in the short form,
# and whole without it. What is judged by a clock on the wall goes last and one after the other, with nothing compiled
# beside it.
SIMULATIONS := $(addprefix ./,failover/drill sim sim/ours sim/quotas sim/rival sim/scenario sim/workload sim/world)
CLOCKED     := ./cmd/e2e/... ./cmd/anabranch-controlplane/... ./controlplane/store/... ./dataplane

.PHONY: test
test: space deps web/dist/index.html lint ## Everything that CI checks.
	cd web && npm run --silent check && npm run --silent test && node --test --test-reporter=spec e2e/fake.test.js
	CGO_ENABLED=1 go test -race -vet=off -timeout 20m $$(go list ./... | grep -vxF "$$(go list $(SIMULATIONS) $(CLOCKED))")
	CGO_ENABLED=1 go test -race -vet=off -short $(SIMULATIONS)
	go test -vet=off $(SIMULATIONS)
	CGO_ENABLED=1 go test -race -vet=off -p 1 -timeout 20m $(CLOCKED)
	go test -vet=off -run '^TestScenarios$$|AdviceOverTime|NoSurvivorIsPlanned' ./controlplane/plan # of these only the short ones and a few under -race
	go test -vet=off -run ReconnectAtOnce ./cmd/anabranch-controlplane/node # not under -race: see reconnect_test.go
	CGO_ENABLED=1 go test -race -vet=off -tags kubernetes -run Kubernetes ./cmd/anabranch-router

.PHONY: test-short
test-short: ## The quick loop: unit tests without -race, no whole systems.
	go test -short ./...

.PHONY: stress
stress: web/dist/index.html ## What is too long for CI: every test ten times under -race, then the long forms; LONG=Kills only those that match.
	$(if $(LONG),,CGO_ENABLED=1 go test -race -vet=off -count=10 -timeout 120m ./...)
	ANABRANCH_STRESS=1 CGO_ENABLED=1 go test -race -vet=off -count=1 -timeout 180m -v -run '$(or $(LONG),.)' ./controlplane/... ./cmd/anabranch-controlplane/... ./ratelimit/redisbucket ./cmd/e2e/quota
	ANABRANCH_STRESS=1 go test -vet=off -count=1 -timeout 20m -v -run '$(or $(LONG),.)' ./failover # explores for two minutes, ten times as far as under -race
	ANABRANCH_STRESS=1 go test -vet=off -count=1 -p 1 -timeout 300m -v -run '$(or $(LONG),.)' ./cmd/e2e/failover ./cmd/e2e/drill ./cmd/e2e/scale # alone: what they measure is time

.PHONY: screenshots
screenshots: web/dist/index.html ## A picture of every page of the console, light and dark, in web/screenshots.
	cd web && rm -rf screenshots && mkdir screenshots && node e2e/screenshots.js screenshots

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (10s) each; what is found goes to its testdata.
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9]*' $$dir/*_test.go | cut -d' ' -f2); do \
			echo "$$dir $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),10s) $$dir || exit 1; \
		done; done

.PHONY: proof
proof: build ## Policies and quotas side by side into sim/RESULTS.md; TRACES=DIR uses published traces, FULL=1 all of them.
	bin/anabranch sim proof $(if $(TRACES),--traces $(TRACES)) $(if $(FULL),--full) $(if $(SEEDS),--seeds $(SEEDS)) --out sim/RESULTS.md

.PHONY: bench
bench: ## The card of the request path, of quotas and of plans: their speed beside baselines; BENCH=. runs every benchmark.
	@$(MAKE) --no-print-directory $(BENCHSTAT)
	@mkdir -p .anabranch
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime 0.3s -count $(or $(COUNT),5) -timeout 60m $(if $(filter .,$(BENCH)),./dataplane/... ./ratelimit/... ./sim/...,./dataplane/pick ./dataplane/prefix ./dataplane/inference ./dataplane) | tee .anabranch/bench.txt
	@$(BENCHSTAT) .anabranch/bench.txt
	@awk -f .github/bench-samples.awk -f .github/bench-card.awk .anabranch/bench.txt
	$(if $(filter file,$(origin BENCH)),@$(MAKE) --no-print-directory bench-quota bench-plan)

.PHONY: bench-quota
bench-quota: ## Decisions on quotas beside golang.org/x/time/rate and redis_rate, in one run.
	@$(MAKE) --no-print-directory $(BENCHSTAT)
	@mkdir -p .anabranch
	go test -run '^$$' -bench 'Decide|Redis|Decisions|Take$$' -benchtime 0.3s -count $(or $(COUNT),6) -timeout 20m ./ratelimit ./ratelimit/redisbucket ./dataplane/admit | tee .anabranch/bench-quota.txt
	@$(BENCHSTAT) -col /by .anabranch/bench-quota.txt
	@awk -f .github/bench-samples.awk -f .github/bench-quota.awk .anabranch/bench-quota.txt

.PHONY: bench-plan
bench-plan: ## Plans of 6,000 demands: how long they take from nothing, from the one before, when all is full, and when a region is lost.
	@mkdir -p .anabranch
	go test -run '^$$' -bench '(Cold|Warm|ComputeWide|ComputeLoss)/20x10x30' -benchtime 0.3s -count $(or $(COUNT),1) -timeout 20m ./controlplane/plan/flow ./controlplane/plan | tee .anabranch/bench-plan.txt
	@awk -f .github/bench-samples.awk -f .github/bench-plan.awk .anabranch/bench-plan.txt

.PHONY: bench-store
bench-store: ## The control plane's commits beside etcd's; DIR= names a folder on the disk to measure.
	cd controlplane/store/etcdbench && go run -mod=mod . -dir "$(DIR)"

.PHONY: bench-rls
bench-rls: ## The rate limit service for Envoy beside envoyproxy/ratelimit, which is downloaded, on one Redis.
	cd dataplane/rls/envoybench && go run -mod=mod .

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Formatting, vet and lint.
	$(GOLANGCI_LINT) run ./...
	$(GOLANGCI_LINT) fmt --diff ./...
	go vet -tags kubernetes ./cmd/anabranch-router

.PHONY: fmt
fmt: $(GOLANGCI_LINT) ## Format the Go sources.
	$(GOLANGCI_LINT) fmt ./...

.PHONY: gen
gen: $(BUF) $(PROTOC_GO) $(PROTOC_GRPC) ## Make the generated code again.
	PATH="$(dir $(PROTOC_GO)):$(dir $(PROTOC_GRPC)):$$PATH" $(BUF) generate

.PHONY: clean
clean: ## Remove what build and tests made (not the state of a running demo).
	rm -rf bin web/node_modules web/screenshots web/src/api/schema.gen.ts .anabranch/tools .anabranch/bench*.txt
	find web/dist -mindepth 1 ! -name .keep -delete

$(GOLANGCI_LINT):
	GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
$(BUF):
	GOBIN=$(@D) go install github.com/bufbuild/buf/cmd/buf@v1.75.0
$(PROTOC_GO):
	GOBIN=$(@D) go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
$(PROTOC_GRPC):
	GOBIN=$(@D) go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
$(BENCHSTAT):
	GOBIN=$(@D) go install golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
