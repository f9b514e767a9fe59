package workload

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// exhaust takes what a source gives and checks what all of them promise.
func exhaust(t *testing.T, s Peeker, most int) {
	last := time.Duration(0)
	for range most {
		at, peeked := s.Peek()
		r, ok := s.Next()
		if ok != peeked || !ok && !s.Ended() {
			t.Fatalf("Peek says %v, Next %v, Ended %v", peeked, ok, s.Ended())
		}
		if !ok {
			return
		}
		if r.At != at || r.At < last || r.PromptTokens < 1 || r.OutputTokens < 1 || len(r.Blocks) > r.PromptTokens {
			t.Fatalf("after %v comes %+v", last, r)
		}
		last = r.At
	}
}

func FuzzMooncake(f *testing.F) {
	sample := load(f, "mooncake.jsonl")
	f.Add(sample[:bytes.IndexByte(sample, '\n')], uint16(0))
	f.Add([]byte(`{"timestamp": 0, "input_length": 0, "output_length": 0, "hash_ids": []}`+"\n\n"+`{"timestamp": 1e3, "input_length": 1, "output_length": 1}`), uint16(300))
	f.Add([]byte("\x1f\x8b\x08\x00"), uint16(1))
	f.Add([]byte(`{"timestamp": 5, "input_length": -1`), uint16(1))
	f.Fuzz(func(t *testing.T, text []byte, shift uint16) {
		s, err := Mooncake(bytes.NewReader(text), TraceOptions{
			Grid: time.Second, Thin: 0.9, Regions: []Origin{{Region: "a"}, {Region: "b", Shift: time.Duration(shift) * time.Second}},
		})
		if err == nil {
			exhaust(t, s, 200)
			err = s.Err()
		}
		if err != nil && !strings.HasPrefix(err.Error(), "Mooncake trace") {
			t.Errorf("error doesn't say of what it is: %v", err)
		}
	})
}

func FuzzAzure(f *testing.F) {
	f.Add(load(f, "azure.csv")[:200])
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n0001-01-01 00:00:00,1,1\n"))
	f.Add([]byte("TIMESTAMP,ContextTokens,GeneratedTokens\n9999-12-31 23:59:59.9999999,1,1\n"))
	f.Add([]byte("GeneratedTokens,TIMESTAMP,ContextTokens,\n1,2023-11-16 18:17:03,1,\n0,2423-11-16 18:17:03,1,"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Azure(bytes.NewReader(text), TraceOptions{Speedup: 2})
		if err == nil {
			exhaust(t, s, 200)
			err = s.Err()
		}
		if err != nil && !strings.HasPrefix(err.Error(), "Azure trace") {
			t.Errorf("error doesn't say of what it is: %v", err)
		}
	})
}

func FuzzServeGen(f *testing.F) {
	f.Add(load(f, "servegen_clients.csv")[:300], load(f, "servegen_lengths.csv")[:200], int16(0))
	f.Add([]byte("model,client,window_s,rate_rps,cv,pattern,shape\nm,1,0,9,1,Weibull,0\nm,1,1e6,9,1,Gamma,1e30\n"),
		[]byte("model,client,window_s,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,out_p90,out_p99\nm,1,5,0,0,0,0,1e6,1,1,1\n"), int16(-7))
	f.Fuzz(func(t *testing.T, clients, lengths []byte, shift int16) {
		s, err := ServeGen(bytes.NewReader(clients), bytes.NewReader(lengths), TraceOptions{
			Thin: 0.001, Prompt: Lengths{Fixed: 1}, Output: Lengths{Fixed: 1},
			Regions: []Origin{{Region: "a", Shift: time.Duration(shift) * time.Hour}},
		})
		if err == nil {
			exhaust(t, s, 200)
		} else if !strings.HasPrefix(err.Error(), "ServeGen") && !strings.HasPrefix(err.Error(), "trace options") {
			t.Errorf("error doesn't say of what it is: %v", err)
		}
	})
}
