//go:build kubernetes

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"anabranch/dataplane/table"
)

func TestKubernetesIsFoundThroughAKubeconfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if o, _, err := run(t, required...); err != nil || o.Finders != nil {
		t.Errorf("outside of a cluster: %+v, %v", o.Finders, err)
	}
	path := filepath.Join(t.TempDir(), "config")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, _, err := run(t, append(required, "--kubeconfig", path)...)
	if err != nil || o.Finders[table.DiscoverEndpointSlices] == nil || o.Finders[table.DiscoverInferencePool] == nil {
		t.Errorf("finders %v, %v", o.Finders, err)
	}
	if _, _, err := run(t, append(required, "--kubeconfig", path+"x")...); err == nil || !strings.Contains(err.Error(), "--kubeconfig") {
		t.Errorf("error %v", err)
	}
}
