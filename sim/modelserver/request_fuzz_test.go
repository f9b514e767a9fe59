package modelserver

import (
	"errors"
	"testing"

	"anabranch/sim"
)

// FuzzParse looks for bodies that are taken though the engine cannot, or that crash.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"model":"llama-3.1-8b","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"support-lora","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url"}]}],"max_tokens":5}`,
		`{"model":"llama-3.1-8b","prompt":[1,-2,3],"max_tokens":1,"min_tokens":-5}`,
		`{"model":"llama-3.1-8b","prompt":"x","ignore_eos":true}`,
		`{"model":"llama-3.1-8b","input":"x","dimensions":-1}`,
		`{"model":"llama-3.1-8b","prompt":"x","max_tokens":9223372036854775807}`,
		`{"model":null,"n":null}`, `[]`, ``,
	} {
		f.Add(s)
	}
	server, err := New(twoPods)
	if err != nil {
		f.Fatal(err)
	}
	e := server.endpoints[0]
	f.Fuzz(func(t *testing.T, body string) {
		for _, a := range []api{chatAPI, completionAPI, embeddingAPI} {
			g, err := e.parse(a, []byte(body))
			if err != nil {
				var p *problem
				if !errors.As(err, &p) || p.status < 400 || p.status > 499 {
					t.Fatalf("error %v is no problem of the client", err)
				}
				continue
			}
			g.request.ID = 1
			if err := sim.New(sim.Options{Profile: mustProfile(t), MaxAdapters: 4}).Submit(0, g.request); err != nil {
				t.Fatalf("the engine refuses what was parsed: %v", err)
			}
		}
	})
}

func mustProfile(t *testing.T) sim.Profile {
	t.Helper()
	p, err := sim.Lookup("h100", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
