package main

import (
	"errors"
	"strings"
	"testing"
)

func TestFieldsAreToldByTheirFlags(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"speedup: is 0.0001: set 0.001 to a million":                            "--speedup: is 0.0001: set 0.001 to a million",
		"inFlight: is -1: set 1 to a million":                                   "--in-flight: is -1: set 1 to a million",
		"url: is not http://host:port":                                          "--target: is not http://host:port",
		"urls[us-east-1]: is not http://host:port":                              "--target: us-east-1: is not http://host:port",
		"trace options: from, length: are -1s and 0s: set 0 to 8760h":           "--from and --length: are -1s and 0s: set 0 to 8760h",
		"regions[1].shift: is 9000h: set at most 8760h":                         "--region: is 9000h: set at most 8760h",
		`regionMap["m-large/3"]: is empty`:                                      `--region-map: "m-large/3": is empty`,
		"prompt: cap: is -5: set 1 to 10000000, or 0 for no cap":                "--max-prompt: is -5: set 1 to 10000000, or 0 for no cap",
		"mix.tenants[0].weight: is +Inf: set a positive number":                 "--tenant: is +Inf: set a positive number",
		"Mooncake trace, line 1: is not a JSON object of the trace: unexpected": "Mooncake trace, line 1: is not a JSON object of the trace: unexpected",
		"no field at all": "no field at all",
	} {
		if got := named(errors.New(text)).Error(); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// Whatever is wrong with the options is told by the name of the flag, before anything is sent.
func TestBadOptionsNameTheFlag(t *testing.T) {
	s := elsewhere(t)
	conversations(t, "small.jsonl", 2, 1)
	h := listening(t, "", "m")
	for want, args := range map[string][]string{
		"--speedup: is -1":               {"--speedup", "-1"},
		"--thin: is 2":                   {"--thin", "2"},
		"--requests: is -1":              {"--requests", "-1"},
		"--grid: is 2h":                  {"--grid", "2h"},
		"--from and --length: are -1s":   {"--from", "-1s"},
		"--api: is \"embeddings\"":       {"--api", "embeddings"},
		"--in-flight: is -1":             {"--in-flight", "-1"},
		"--timeout: is 1µs":              {"--timeout", "1us"},
		"--max-prompt: is -1":            {"--max-prompt", "-1"},
		"--max-output: is -1":            {"--max-output", "-1"},
		"--warmup: is -1s":               {"--warmup", "-1s"},
		"--ttft, --itl: are -1s":         {"--ttft", "-1s"},
		"--price: is -1":                 {"--price", "-1"},
		"--price: is NaN":                {"--price", "nan"},
		"--name: is empty":               {"--name", ""},
		"--model: ":                      {"--model", "two words"},
		"--region: name \"US\" may":      {"--region", "US"},
		`--region: us: "x" is no weight`: {"--region", "us=x"},
		`--tenant: a: "-1" is no weight`: {"--tenant", "a=-1"},
		"--shift: requests come from no": {"--shift", "us=1h"},
		"--shift: us: \"x\" is no durat": {"--region", "us", "--shift", "us=x"},
	} {
		if _, errs := s.do(exitFailed, "", append([]string{"replay", "small.jsonl", "--target", h.URL}, args...)...); !strings.Contains(errs, want) {
			t.Errorf("%v: error lacks %q: %s", args, want, errs)
		}
	}
	s.do(exitUsage, "", "replay")
	s.do(exitUsage, "", "replay", "small.jsonl", "--requests", "many")
	s.do(exitUsage, "", "replay", "small.jsonl", "-o", "yaml")
	s.do(exitUsage, "", "replay", "--compare", "--target", h.URL, "a.json", "b.json")
	if h.count() > 0 {
		t.Errorf("%d requests were sent", h.count())
	}
}

func TestTheCommandLineTellsNoToken(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"/opt/bin/anabranch", "--token", "s3cret", "replay", "a.jsonl"},
		{"/opt/bin/anabranch", "--token=s3cret", "replay", "a.jsonl"},
		{"/opt/bin/anabranch", "replay", "a.jsonl", "--token", "s3cret"},
	} {
		got := commandLine(args)
		if strings.Contains(got, "s3cret") || !strings.HasPrefix(got, "anabranch ") || !strings.Contains(got, "replay a.jsonl") {
			t.Errorf("%v becomes %q", args, got)
		}
	}
	if got := commandLine([]string{"./anabranch", "replay", "a b.jsonl", "--grid", "3s"}); got != "anabranch replay 'a b.jsonl' --grid 3s" {
		t.Errorf("%q", got)
	}
}
