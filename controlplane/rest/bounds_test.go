package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"anabranch/controlplane/state/statepb"
)

// eventually waits for something that another goroutine is about to do.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not come true", what)
		}
	}
}

func TestAWatchThatItsClientLeavesIsForgotten(t *testing.T) {
	d := newDouble(t)
	for _, path := range []string{"/v1/watch", "/v1/fleet/watch", "/v1/regions?watch=true"} {
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret-viewer")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, path+" is open", func() bool { return d.server.watches.Load() == 1 })
		cancel()
		_ = resp.Body.Close() // the request was given up
		eventually(t, path+" is closed", func() bool { return d.server.watches.Load() == 0 })
	}
}

// A leader that never answers holds no request for longer than its time-out.
func TestRequestsAreBoundedInTime(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	tests := []struct {
		name, method, path string
		change             func(*Options)
		within             time.Duration
	}{
		{"a write", "POST", "/v1/tenants", func(o *Options) {
			o.Propose = func(ctx context.Context, _ *statepb.Command) (*statepb.Outcome, error) { return nil, hang(ctx) }
		}, RequestTimeout},
		{"a strong read", "GET", "/v1/tenants", func(o *Options) { o.ReadBarrier = hang }, BarrierTimeout},
		{"a write that waits for the leader", "POST", "/v1/tenants", func(o *Options) { o.ReadBarrier = hang }, BarrierTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newUnserved(t, tt.change)
				start := time.Now()
				req := httptest.NewRequest(tt.method, tt.path, strings.NewReader(doc("Tenant", "x", "{}")))
				req.Header.Set("Authorization", "Bearer secret-admin")
				w := httptest.NewRecorder()
				d.server.Handler().ServeHTTP(w, req)
				if w.Code != 503 || !strings.Contains(w.Body.String(), `"timeout"`) {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				if took := time.Since(start); took != tt.within {
					t.Errorf("took %v, want %v", took, tt.within)
				}
			})
		})
	}
}

func TestARefusalWaitsShortlyForItsAuditEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newUnserved(t, func(o *Options) {
			o.Propose = func(ctx context.Context, _ *statepb.Command) (*statepb.Outcome, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		start := time.Now()
		req := httptest.NewRequest(http.MethodPost, "/v1/tenants", nil)
		req.Header.Set("Authorization", "Bearer secret-viewer")
		w := httptest.NewRecorder()
		d.server.Handler().ServeHTTP(w, req)
		if took := time.Since(start); w.Code != 403 || took != deniedTimeout {
			t.Errorf("%d after %v", w.Code, took)
		}
	})
}

func TestTheWorstClusterSpeaksForItsRegion(t *testing.T) {
	tests := []struct {
		health []string
		want   string
	}{
		{nil, unknownHealth},
		{[]string{"HEALTHY"}, "HEALTHY"},
		{[]string{"HEALTHY", "DEGRADED"}, "DEGRADED"},
		{[]string{"EVACUATED", "HEALTHY"}, "EVACUATED"},
		{[]string{"SUSPECT", "RAMPING", "DEGRADED"}, "SUSPECT"},
		{[]string{"DRAINED", "SUSPECT"}, "DRAINED"},
		{[]string{"FAILING_OVER", "DRAINED"}, "FAILING_OVER"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.health, " "), func(t *testing.T) {
			d := newDouble(t)
			d.seed("Region us {}", "Model m {}")
			var health []*statepb.ClusterHealth
			for i, h := range tt.health {
				name := string(rune('a' + i))
				d.seed("Cluster " + name + " {region: us, models: [m], endpoints: [{id: p, url: 'http://" + name + "', class: x}]}")
				health = append(health, &statepb.ClusterHealth{Cluster: name, State: h})
			}
			d.apply(&statepb.Command{Format: 1, Op: &statepb.Command_Publish{Publish: &statepb.Publish{Health: health}}})
			var got struct{ Status RegionStatus }
			d.do("viewer", "GET", "/v1/regions/us", "").want(200, "").into(&got)
			if got.Status.Health != tt.want {
				t.Errorf("got %s, want %s", got.Status.Health, tt.want)
			}
		})
	}
}
