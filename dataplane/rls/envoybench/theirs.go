package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// version of github.com/envoyproxy/ratelimit, which is built as it is released, with the versions of
// libraries that it names: with those of this module it does not compile.
const version = "v1.4.1-0.20260122083618-3fb702589d36"

// buildTheirs makes the program.
func buildTheirs(ctx context.Context, dir string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", "github.com/envoyproxy/ratelimit/src/service_cmd@"+version)
	cmd.Dir = dir // outside of this module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build envoyproxy/ratelimit: %w: %s", err, out)
	}
	return filepath.Join(dir, "service_cmd"), nil
}

// rules are the limits: each tenant's, and each tenant's for a model; so large that nothing is denied.
const rules = `domain: ` + domain + `
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 1000000000}
    descriptors:
      - key: model
        rate_limit: {unit: minute, requests_per_unit: 1000000000}
`

// startTheirs runs it beside a Redis. With a window, commands are sent together that come within it, as
// its documentation recommends for busy servers.
func startTheirs(ctx context.Context, program, dir, redis, window string) (*process, string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "rules", "config"), 0o700); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "rules", "config", "rules.yaml"), []byte(rules), 0o600); err != nil {
		return nil, "", err
	}
	var ports [3]string
	var address string
	for i := range ports {
		var err error
		if address, err = free(ctx); err != nil {
			return nil, "", err
		}
		if _, ports[i], err = net.SplitHostPort(address); err != nil {
			return nil, "", err
		}
	}
	environment := []string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "PORT=" + ports[0], "DEBUG_PORT=" + ports[1], "GRPC_PORT=" + ports[2],
		"LOG_LEVEL=error", "DISABLE_STATS=true", "USE_STATSD=false", "RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=rules", "RUNTIME_WATCH_ROOT=false",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "BACKEND_TYPE=redis", "REDIS_TYPE=SINGLE", "REDIS_SOCKET_TYPE=unix", "REDIS_URL=" + redis,
	}
	if window != "" {
		environment = append(environment, "REDIS_PIPELINE_WINDOW="+window)
	}
	p, err := start(ctx, "tcp", address, program, environment)
	return p, address, err
}
