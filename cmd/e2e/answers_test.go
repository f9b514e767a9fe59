package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev/seed"
)

var regions = []string{"us-east-1", "eu-west-1", "ap-northeast-1"}

func TestAnApplicationNoticesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)

	t.Run("every region answers for every model, near the client", func(t *testing.T) {
		for _, region := range regions {
			for _, model := range seed.Models() {
				for _, stream := range []bool{false, true} {
					a := s.ask(region, "acme", chat(model, stream))
					if err := a.whole(); err != nil {
						t.Errorf("%s %s stream=%v: %v", region, model, stream, err)
						continue
					}
					if a.region() != region {
						t.Errorf("%s %s: served by %s", region, model, a.region())
					}
					for _, name := range []string{"x-anabranch-cluster", "x-anabranch-request-id", "x-anabranch-attempts", "x-ratelimit-remaining-requests"} {
						if a.header.Get(name) == "" {
							t.Errorf("%s %s: no header %s", region, model, name)
						}
					}
				}
			}
		}
	})

	t.Run("usage comes in a stream only if asked for", func(t *testing.T) {
		for _, asked := range []bool{false, true} {
			body := chat(seed.SmallModel, true)
			if asked {
				body["stream_options"] = map[string]any{"include_usage": true}
			}
			a := s.ask("us-east-1", "acme", body)
			if err := a.whole(); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, e := range a.events {
				var chunk struct {
					Usage *struct{ CompletionTokens int }
				}
				if json.Unmarshal([]byte(e), &chunk) == nil && chunk.Usage != nil {
					found = true
				}
			}
			if found != asked {
				t.Errorf("include_usage=%v: usage in the stream: %v", asked, found)
			}
		}
	})

	t.Run("errors have OpenAI's shape and say who refused", func(t *testing.T) {
		for _, c := range []struct {
			name, key, body, code string
			status                int
		}{
			{"no key", "", `{"model":"llama-3.1-8b","messages":[]}`, "invalid_api_key", http.StatusUnauthorized},
			{"unknown key", "sk-nobody", `{"model":"llama-3.1-8b","messages":[]}`, "invalid_api_key", http.StatusUnauthorized},
			{"unknown model", s.keys["acme"], `{"model":"gpt-17","messages":[]}`, "model_not_found", http.StatusNotFound},
			{"not JSON", s.keys["acme"], `{"model":`, "", http.StatusBadRequest},
			{"too large", s.keys["acme"], `{"model":"llama-3.1-8b","messages":[{"role":"user","content":"` + strings.Repeat("a", 11<<20) + `"}]}`, "", http.StatusRequestEntityTooLarge},
		} {
			t.Run(c.name, func(t *testing.T) {
				a := s.sendRaw(t.Context(), "eu-west-1", c.key, c.body)
				f := a.failure()
				if a.status != c.status || f.Message == "" || f.Type == "" || f.Origin != "router" || c.code != "" && f.Code != c.code {
					t.Errorf("got %d %s", a.status, a.body)
				}
			})
		}
	})

	t.Run("models are listed", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.routers["us-east-1"].url()+"/v1/models", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.keys["acme"])
		resp, err := tenants.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var list struct {
			Data []struct{ ID string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Data) != len(seed.Models()) {
			t.Errorf("%v %v", list, err)
		}
	})

	t.Run("a request is explained by its id, without its text", func(t *testing.T) {
		a := s.ask("us-east-1", "acme", chat(seed.SmallModel, false))
		status, text := s.get(s.routers["us-east-1"].admin() + "/explain/" + a.header.Get("x-anabranch-request-id"))
		if status != http.StatusOK || !strings.Contains(text, a.cluster()) || strings.Contains(text, "anabranch go?") {
			t.Errorf("%d %s", status, text)
		}
	})
}

func TestResidencyIsNeverWidened(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, region := range regions {
		a := s.ask(region, "initech", chat(seed.SmallModel, false))
		if err := a.whole(); err != nil || a.region() != "eu-west-1" {
			t.Errorf("from %s: served by %q, %v", region, a.region(), err)
		}
	}
	s.killRegion("eu-west-1")
	for _, region := range regions {
		for range 5 {
			a := s.ask(region, "initech", chat(seed.SmallModel, false))
			if a.status != http.StatusServiceUnavailable && a.status != http.StatusBadGateway || a.failure().Message == "" {
				t.Errorf("from %s with the EU dead: %d by %q: %s", region, a.status, a.region(), a.body)
			}
		}
		if a := s.ask(region, "acme", chat(seed.SmallModel, false)); a.whole() != nil {
			t.Errorf("a tenant that may leave, from %s: %v", region, a.whole())
		}
	}
}

func TestAQuotaHoldsOverAllRegions(t *testing.T) {
	t.Parallel()
	s := start(t)
	began := time.Now()
	admitted, refused := 0, 0
	for i := range 90 {
		a := s.ask(regions[i%3], "globex", chat(seed.SmallModel, false))
		switch {
		case a.whole() == nil:
			admitted++
		case a.status == http.StatusTooManyRequests:
			refused++
			checkRefusal(t, a)
		default:
			t.Errorf("from %s: %v", regions[i%3], a.whole())
		}
	}
	// Burst 60 and one a second since, wherever they were asked.
	if most := 60 + int(time.Since(began).Seconds()) + 1; admitted > most || refused == 0 {
		t.Errorf("%d admitted and %d refused in %v, at most %d may be", admitted, refused, time.Since(began), most)
	}
	if a := s.ask("us-east-1", "acme", chat(seed.SmallModel, false)); a.whole() != nil {
		t.Errorf("another tenant is held up: %v", a.whole())
	}
}

func checkRefusal(t *testing.T, a answer) {
	t.Helper()
	f := a.failure()
	if f.Code != "rate_limit_exceeded" || f.Origin != "quota" || f.Message == "" {
		t.Errorf("refusal says %s", a.body)
	}
	for _, name := range []string{"retry-after", "retry-after-ms", "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"} {
		if a.header.Get(name) == "" {
			t.Errorf("refusal has no header %s", name)
		}
	}
}

// TestAClientThatLeavesStopsTheEndpoint: what nobody reads is not generated.
func TestAClientThatLeavesStopsTheEndpoint(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	body := chat(seed.LargeModel, true)
	body["max_tokens"] = 4000
	done := make(chan answer, 1)
	go func() { done <- s.send(ctx, "us-east-1", s.keys["acme"], body) }()
	running := func() (n int) {
		for _, e := range s.clusters["us-east-1-b"].servers.Status(0).Endpoints {
			for _, m := range e.Models {
				n += m.Running + m.Waiting
			}
		}
		return n
	}
	s.await(10*time.Second, "the request to run", func() error {
		if running() == 0 {
			return errNotYet
		}
		return nil
	})
	cancel()
	<-done
	s.await(5*time.Second, "the endpoint to stop", func() error {
		if running() != 0 {
			return errNotYet
		}
		return nil
	})
}
