package proxy

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHeadersOnTheWayToAPlace(t *testing.T) {
	client := http.Header{}
	for key, value := range map[string]string{
		"Authorization": "Bearer secret", "X-Api-Key": "secret", "Cookie": "secret", "Accept-Encoding": "gzip",
		"Connection": "close, X-Mine", "X-Mine": "1", "Te": "trailers", "Transfer-Encoding": "chunked",
		"X-Anabranch-Tenant": "other", "X-Anabranch-Hop": "1", "X-Anabranch-Priority": "100",
		HeaderFairness: "other", HeaderObjective: "top", "X-Llm-D-Slo-Ttft-Ms": "1", "X-Gateway-Model-Name": "x",
		"X-Prefiller-Host-Port": "evil:1", "X-Encoder-Hosts-Ports": "evil:1", "X-Data-Parallel-Host-Port": "evil:1",
		"X-Kv-Cache-Source-Host-Port": "evil:1", "X-Envoy-Max-Retries": "99",
		"Content-Type": "application/json", "Traceparent": "00-1-2-01", "User-Agent": "openai-go",
	} {
		client.Set(key, value)
	}
	before := fmt.Sprint(client)
	got := Outgoing(client, []Field{{HeaderFairness, "acme"}, {"X-Request-Id", "r-1"}, {"Authorization", ""}})
	want := http.Header{
		"Content-Type": {"application/json"}, "Traceparent": {"00-1-2-01"}, "User-Agent": {"openai-go"},
		HeaderFairness: {"acme"}, "X-Request-Id": {"r-1"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if fmt.Sprint(client) != before {
		t.Error("the client's header was changed")
	}
}

func TestErrorsHaveTheShapeOfOpenAI(t *testing.T) {
	w := httptest.NewRecorder()
	(&Error{Status: 429, Message: "too many", Type: TypeRateLimit, Code: "rate_limit_exceeded", Param: "", Origin: FromQuota, RetryAfter: 1200 * time.Millisecond}).Write(w)
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	want := `{"error":{"message":"too many","type":"rate_limit_exceeded","code":"rate_limit_exceeded","param":null,"origin":"quota"}}`
	if w.Body.String() != want {
		t.Errorf("body %s\nwant %s", w.Body, want)
	}
	with := &Error{Message: "x", Type: TypeInvalidRequest, Code: "model_not_found", Param: "model", Origin: FromRouter}
	if !strings.Contains(string(with.JSON()), `"param":"model"`) {
		t.Errorf("body %s", with.JSON())
	}
}
