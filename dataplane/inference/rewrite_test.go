package inference

import "testing"

func TestAnswersAreCutShortInPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		path, body string
		most       int64
		want       string
	}{
		"none is asked for":       {"/v1/chat/completions", `{"model":"m","messages":[]}`, 64, `{"max_tokens":64,"model":"m","messages":[]}`},
		"more is asked for":       {"/v1/chat/completions", `{"model":"m", "max_tokens": 4096 ,"messages":[]}`, 64, `{"model":"m", "max_tokens": 64 ,"messages":[]}`},
		"less is asked for":       {"/v1/chat/completions", `{"model":"m","max_tokens":10,"messages":[]}`, 64, `{"model":"m","max_tokens":10,"messages":[]}`},
		"the newer name":          {"/v1/chat/completions", `{"max_completion_tokens":99,"model":"m","messages":[]}`, 64, `{"max_completion_tokens":64,"model":"m","messages":[]}`},
		"both names, one is more": {"/v1/chat/completions", `{"max_completion_tokens":9,"model":"m","max_tokens":99,"messages":[]}`, 64, `{"max_completion_tokens":9,"model":"m","max_tokens":64,"messages":[]}`},
		"null is no number":       {"/v1/completions", `{"model":"m","max_tokens":null,"prompt":"x"}`, 64, `{"model":"m","max_tokens":64,"prompt":"x"}`},
		"responses":               {"/v1/responses", `{"model":"m","input":"x"}`, 64, `{"max_output_tokens":64,"model":"m","input":"x"}`},
		"embeddings have none":    {"/v1/embeddings", `{"model":"m","input":"x"}`, 64, `{"model":"m","input":"x"}`},
		"what is not known":       {"/v1/score", `{"model":"m","input":"x"}`, 64, `{"model":"m","input":"x"}`},
		"no bound":                {"/v1/messages", `{"model":"m","max_tokens":99,"messages":[]}`, 0, `{"model":"m","max_tokens":99,"messages":[]}`},
	} {
		r, err := Read(tt.path, []byte(tt.body), 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := string(r.Rewrite([]byte(tt.body), "m", false, tt.most)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestRewrite(t *testing.T) {
	tests := []struct {
		name, path, body, model string
		usage                   bool
		want                    string
	}{
		{
			"nothing to change", "/v1/chat/completions",
			`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		},
		{
			"the model, everything else byte for byte", "/v1/chat/completions",
			"{ \"model\" :\"alias\" ,\n \"x\": 1.0e0 }", "base/model", false,
			"{ \"model\" :\"base/model\" ,\n \"x\": 1.0e0 }",
		},
		{
			"a model that needs quoting", "/v1/completions", `{"model":"a"}`, "b\"\\\n", false,
			`{"model":"b\"\\\n"}`,
		},
		{
			"the model that counts of two", "/v1/completions", `{"model":"a","model":"b"}`, "c", false,
			`{"model":"a","model":"c"}`,
		},
		{
			"usage where there are no options", "/v1/chat/completions", ` {"model":"m","stream":true}`, "m", true,
			` {"stream_options":{"include_usage":true},"model":"m","stream":true}`,
		},
		{
			"usage into empty options", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{ }}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true }}`,
		},
		{
			"usage beside other options", "/v1/completions", `{"model":"m","stream":true,"stream_options":{ "x":1}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true, "x":1}}`,
		},
		{
			"usage in the place of a no", "/v1/chat/completions", `{"stream_options":{"include_usage":false},"model":"m","stream":true}`, "m", true,
			`{"stream_options":{"include_usage":true},"model":"m","stream":true}`,
		},
		{
			"usage in the place of its null", "/v1/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":null,"x":[]}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true,"x":[]}}`,
		},
		{
			"the usage that counts of two", "/v1/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_usage":false}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_usage":true}}`,
		},
		{
			"usage by another spelling of the name", "/v1/completions", `{"model":"m","stream":true,"stream_options":{"include\u005fusage":false}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include\u005fusage":true}}`,
		},
		{
			"options that count of two", "/v1/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true},"stream_options":{"a":1}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true,"a":1}}`,
		},
		{
			"usage at the end and not in each chunk", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"continuous_usage_stats":true}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":false}}`,
		},
		{
			"nor where it was turned off", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":false, "continuous_usage_stats": true}}`, "longer", true,
			`{"model":"longer","stream":true,"stream_options":{"include_usage":true, "continuous_usage_stats": false}}`,
		},
		{
			"usage in each chunk for those who asked", "/v1/chat/completions", `{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		},
		{
			"options of the responses API stay", "/v1/responses", `{"model":"m","stream":true,"stream_options":{"include_obfuscation":false}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_obfuscation":false}}`,
		},
		{
			"options without a stream stay", "/v1/chat/completions", `{"model":"m","stream":false,"stream_options":{"continuous_usage_stats":true}}`, "m", true,
			`{"model":"m","stream":false,"stream_options":{"continuous_usage_stats":true}}`,
		},
		{
			"usage in the place of null", "/v1/chat/completions", `{"stream_options":null,"model":"m","stream":true}`, "m", true,
			`{"stream_options":{"include_usage":true},"model":"m","stream":true}`,
		},
		{
			"both, options first", "/v1/chat/completions", `{"stream_options":{},"model":"m","stream":true}`, "longer", true,
			`{"stream_options":{"include_usage":true},"model":"longer","stream":true}`,
		},
		{
			"both, model first", "/v1/chat/completions", `{"model":"model","stream":true,"stream_options":{}}`, "m", true,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`,
		},
		{"no usage without a stream", "/v1/chat/completions", `{"model":"m"}`, "m", true, `{"model":"m"}`},
		{"no usage unless wanted", "/v1/chat/completions", `{"model":"m","stream":true}`, "m", false, `{"model":"m","stream":true}`},
		{"no usage where it comes by itself", "/v1/messages", `{"model":"m","stream":true}`, "m", true, `{"model":"m","stream":true}`},
		{"no usage for unknown shapes", "/v1/new", `{"model":"m","stream":true}`, "m", true, `{"model":"m","stream":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			r, err := Read(tt.path, body, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.Rewrite(body, tt.model, tt.usage, 0)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if string(body) != tt.body {
				t.Error("the body itself was changed")
			}
		})
	}
}

func TestRewriteReturnsTheBodyItselfIfNothingChanges(t *testing.T) {
	body := []byte(`{"model":"m","stream":true}`)
	r, err := Read("/v1/chat/completions", body, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Rewrite(body, "m", false, 0); &got[0] != &body[0] {
		t.Error("a copy was made")
	}
}
