package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/cmd/anabranch/dev"
	"anabranch/controlplane/inquiry"
	"anabranch/controlplane/rest"
	"anabranch/controlplane/signal"
	"anabranch/dataplane"
)

// keeps is the admin address of a router that has records by their id.
func keeps(t *testing.T, records map[string]string) *httptest.Server {
	t.Helper()
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := records[strings.TrimPrefix(r.URL.Path, "/explain/")]
		if !ok || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"error":"no request of this name is remembered"}`)
			return
		}
		_, _ = fmt.Fprint(w, text)
	}))
	t.Cleanup(router.Close)
	return router
}

func TestExplainAsksARouterItself(t *testing.T) {
	s := begin(t)
	const id = "us-east-1-r1-0000000000000007"
	router := keeps(t, map[string]string{id: `{"id":"` + id + `","status":200,"more":1}`})
	if out, _ := s.do(0, "", "explain", id, "--router", router.URL+"/", "-o", "yaml"); out != "id: "+id+"\nmore: 1\nstatus: 200\n" {
		t.Errorf("yaml %q", out)
	}
	if _, errs := s.do(exitRefused, "", "explain", id); !strings.Contains(errs, "unknown_router") || !strings.Contains(errs, "--router") {
		t.Errorf("without anybody to ask: %s", errs)
	}
	b, err := json.Marshal(dev.Record{Routers: []dev.RouterRecord{{Region: "eu-west-1", Admin: "http://127.0.0.1:1"}, {Region: "us-east-1", Admin: router.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	s.file(filepath.Join(dev.FolderName, "dev.json"), string(b))
	if out, _ := s.do(0, "", "explain", id, "-o", "json"); !strings.Contains(out, `"more": 1`) {
		t.Errorf("json %q", out)
	}
	if out, _ := s.do(0, "", "explain", id); !strings.HasPrefix(out, "request   "+id+"\n") || !strings.Contains(out, "no attempt was made") {
		t.Errorf("table %q", out)
	}
	if _, errs := s.do(exitRefused, "", "explain", "mars-1"); !strings.Contains(errs, "unknown_request") || !strings.Contains(errs, "No router gives a request such a name") {
		t.Errorf("foreign id: %s", errs)
	}
	if _, errs := s.do(exitRefused, "", "explain", "us-east-1-r1-0000000000000008"); !strings.Contains(errs, "no record of us-east-1-r1-0000000000000008") || !strings.Contains(errs, "(HTTP 404): no request of this name") {
		t.Errorf("unknown id: %s", errs)
	}
	t.Setenv("ANABRANCH_SERVER", "http://127.0.0.1:1")
	if out, _ := s.do(0, "", "explain", id); !strings.HasPrefix(out, "request   "+id) {
		t.Errorf("without a control plane: %q", out)
	}
}

// asked are routers that are asked by way of the control plane.
type asked struct {
	records map[string]string // by router and request, "r-1 id"
	news    []inquiry.News
	filter  *routerpb.DecisionFilter
	rate    uint32
}

func (a *asked) Explain(_ context.Context, router fleet.RouterID, request string) (inquiry.Explanation, error) {
	e := inquiry.Explanation{Node: "n2", Router: router, Region: "us-east-1", Most: 4096, Oldest: time.Now().Add(-90 * time.Second)}
	if strings.HasPrefix(string(router), "away") {
		return e, inquiry.ErrNotConnected
	}
	e.Record = []byte(a.records[string(router)+" "+request])
	return e, nil
}

// Inspect: these routers see no clusters.
func (a *asked) Inspect(context.Context, fleet.RouterID, fleet.ClusterID, uint32) (inquiry.Inspection, error) {
	return inquiry.Inspection{}, inquiry.ErrTooOld
}

func (a *asked) Follow(ctx context.Context, filter *routerpb.DecisionFilter, perSecond uint32, tell func(inquiry.News) error) error {
	a.filter, a.rate = filter, perSecond
	for _, n := range a.news {
		if err := tell(n); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func TestExplainAsksTheControlPlaneAndFollowsARequestThere(t *testing.T) {
	s := begin(t)
	const id = "us-1-r1-0000000000000007"
	s.node.Ask(&asked{records: map[string]string{
		"us-1-r1 " + id: `{"id":"` + id + `","region":"us-1","attempts":[{"cluster":"eu-1-a","region":"eu-1","why":"hop"},{"cluster":"ap-1-a","region":"ap-1","why":"hop"},
			{"cluster":"sa-1-a","region":"sa-1","why":"hop"},{"cluster":"mars-a","region":"mars","why":"hop"}]}`,
		"eu-1-r2 " + id: `{"id":"` + id + `","region":"eu-1","hop":true}`,
	}})
	for router, region := range map[string]string{"us-1-r1": "us-1", "eu-1-r1": "eu-1", "eu-1-r2": "eu-1", "ap-1-r1": "ap-1", "away-r1": "sa-1"} {
		s.node.Signals.Put(signal.Observation{Node: "n1", Connected: true, Received: time.Now(), Hello: &routerpb.Hello{RouterId: router, Region: region}})
	}
	out, _ := s.do(0, "", "explain", id)
	for _, want := range []string{"request   " + id, "by way of eu-1's router", "router of eu-1, for another region's", "the router of ap-1 has no record of it", "the router of sa-1 can't be asked"} {
		if strings.Count(out, want) == 0 {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "router of mars") {
		t.Errorf("it speaks of a router that nobody knows:\n%s", out)
	}
	var raw struct {
		ID   string
		From rest.Origin
	}
	out, _ = s.do(0, "", "explain", id, "-o", "json")
	if err := json.Unmarshal([]byte(out), &raw); err != nil || raw.ID != id || raw.From != (rest.Origin{Router: "us-1-r1", Region: "us-east-1", Node: "n2"}) {
		t.Errorf("%v: %s", err, out)
	}
	_, errs := s.do(exitRefused, "", "explain", "us-1-r1-0000000000000008")
	if !strings.Contains(errs, "unknown_request") || !strings.Contains(errs, "newest 4096") || !strings.Contains(errs, "1m30s ago") {
		t.Errorf("forgotten: %s", errs)
	}
}

func TestExplainShowsAllOfAName(t *testing.T) {
	s := begin(t)
	router := keeps(t, map[string]string{"mine": `{"items":[{"id":"us-east-1-r1-08","clientId":"mine","status":503},{"id":"us-east-1-r1-07","clientId":"mine","status":200}]}`})
	out, _ := s.do(0, "", "explain", "mine", "--router", router.URL)
	first, second := strings.Index(out, "request   us-east-1-r1-08, called mine"), strings.Index(out, "\n\nrequest   us-east-1-r1-07, called mine")
	if first != 0 || second < 0 {
		t.Errorf("%q", out)
	}
}

func TestExplainFollowsARequestToAnotherRegion(t *testing.T) {
	s := begin(t)
	const id = "us-east-1-r1-0000000000000007"
	hop := `{"id":"us-east-1-r1-0000000000000007","region":"us-east-1","attempts":[
		{"cluster":"eu-west-1-a","region":"eu-west-1","kind":"first","why":"hop"},{"cluster":"ap-1-a","region":"ap-1","kind":"retry","why":"hop"},
		{"cluster":"sa-1-a","region":"sa-1","kind":"retry","why":"hop"},{"cluster":"eu-west-1-b","region":"eu-west-1","kind":"retry","why":"hop"}]}`
	routers := []dev.RouterRecord{
		{Region: "us-east-1", Admin: keeps(t, map[string]string{id: hop}).URL},
		{Region: "eu-west-1", Admin: keeps(t, map[string]string{id: `{"id":"us-east-1-r1-0000000000000007","region":"eu-west-1","hop":true}`}).URL},
		{Region: "ap-1", Admin: keeps(t, nil).URL},
		{Region: "sa-1", Admin: "http://127.0.0.1:1"},
	}
	b, err := json.Marshal(dev.Record{Routers: routers})
	if err != nil {
		t.Fatal(err)
	}
	s.file(filepath.Join(dev.FolderName, "dev.json"), string(b))
	out, _ := s.do(0, "", "explain", id)
	for _, want := range []string{"by way of eu-west-1's router", "router of eu-west-1, for another region's", "the router of ap-1 has no record of it", "the router of sa-1 can't be asked"} {
		if strings.Count(out, want) == 0 {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "request   "); n != 2 {
		t.Errorf("%d records are shown:\n%s", n, out)
	}
	if out, _ := s.do(0, "", "explain", id, "--router", routers[0].Admin); strings.Contains(out, "for another region's") {
		t.Errorf("it is followed where nobody said that it may be:\n%s", out)
	}
}

// fill gives everything in v a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.UnixMilli(int64(*n)).UTC()))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	}
}

// What routers write is what this program reads: everything, or left out on purpose.
func TestTheRecordIsReadAsRoutersWriteIt(t *testing.T) {
	var written dataplane.Record
	n := 0
	fill(reflect.ValueOf(&written).Elem(), &n)
	raw, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	var read record
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	var theirs, ours any
	if err := json.Unmarshal(raw, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &ours); err != nil {
		t.Fatal(err)
	}
	leftOut := map[string]bool{".blocks": true}
	var compare func(at string, theirs, ours any)
	compare = func(at string, theirs, ours any) {
		switch x := theirs.(type) {
		case map[string]any:
			own, _ := ours.(map[string]any)
			for name, v := range x {
				compare(at+"."+name, v, own[name])
			}
		case []any:
			own, _ := ours.([]any)
			if len(own) != 1 {
				t.Errorf("%s: %v is read as %v", at, theirs, ours)
				return
			}
			compare(at, x[0], own[0])
		default:
			if theirs != ours && !leftOut[at] {
				t.Errorf("%s: %v is read as %v", at, theirs, ours)
			}
		}
	}
	compare("", theirs, ours)
}

func TestARecordIsToldFromTopToBottom(t *testing.T) {
	const doc = `{"id":"us-1-r1-07","clientId":"mine","at":"2026-11-30T02:44:53.123Z","region":"us-1","path":"/v1/chat/completions",
"tenant":"acme","asked":"assistant","model":"llama","adapter":"support","class":"fast","policy":"canary","arm":"new","priority":100,"stream":true,
"epoch":1,"revision":41,"sight":"narrow","promptTokens":1200,"shed":"let in by draw, the plan sheds 40 % of top","queuedMs":930.4,
"candidates":[{"cluster":"us-1-a","region":"us-1","weight":0.75,"reason":"weight","saturation":0.42,"waitMs":12,"prefillMs":88.25,"signalAgeMs":40},
{"cluster":"eu-1-a","region":"eu-1","weight":0,"reason":"fallback","rttMs":70,"busy":true,"signalAgeMs":-1}],
"removed":[{"cluster":"ap-1-a","reason":"ejected: 3 connect failures"}],
"attempts":[{"cluster":"us-1-a","region":"us-1","endpoint":"h100-1","kind":"first","among":4,"why":"least predicted first-token time","predictedMs":100.25,
"expected":{"waitMs":12,"prefillMs":88.25,"adapterMs":500,"kvMs":1.5,"cachedTokens":1024,"waiting":1.5,"running":7,"signalAgeMs":40,"adapter":"resident"},
"runnerUp":"h100-2","runnerUpMs":120,"skipped":[{"endpoint":"a100-1","reason":"busy"}],"reconnected":true,"code":"silence","tookMs":5000},
{"cluster":"eu-1-a","region":"eu-1","kind":"retry","why":"hop","predictedMs":90.5,"status":200,"firstByteMs":95,"tookMs":400}],
"status":200,"code":"client_gone","clientGone":true,"broken":true,"usage":{"promptTokens":1180,"cachedTokens":1024,"completionTokens":31},
"firstByteMs":6025.5,"totalMs":12400}`
	var out bytes.Buffer
	a := &app{out: &out}
	if _, err := a.printRecord(json.RawMessage(doc)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := `request us-1-r1-07, called mine by its client
at 2026-11-30 02:44:53.123 UTC, router of us-1, table 1/41, sight narrow
asked /v1/chat/completions, assistant (served as support), streamed, about 1200 tokens
tenant acme, priority 100
policy canary, arm new, class fast
shed let in by draw, the plan sheds 40 % of top
queue waited 930 ms for room
ended 200 client_gone after 12.40 s, first content after 6.03 s, broken off, its client had left
used 1180 tokens in (1024 from cache), 31 out

CLUSTER REGION WEIGHT LOAD WAIT PREFILL RTT SIGNALS WHY
1 us-1-a us-1 0.75 42% 12 ms 88.2 ms - 40 ms old weight
2 eu-1-a eu-1 0 -, busy - - 70 ms none fallback
- ap-1-a - - - - - - - removed: ejected: 3 connect failures

ATTEMPT PLACE EXPECTED CAME TOOK RESULT WHY
1 first us-1-a/h100-1 100 ms - 5.00 s silence least predicted first-token time of 4, next h100-2 120 ms
2 retry eu-1-a 90.5 ms 95 ms 400 ms 200 by way of eu-1's router

1 expected wait 12 ms, prefill 88.2 ms with 1024 tokens cached, adapter 500 ms (resident), KV pressure 1.5 ms, from 1.5 waiting and 7 running, signals 40 ms old
1 sent again on a fresh connection: the place had closed the one it was sent on
1 skipped a100-1: busy`
	if text := strings.TrimSpace(strings.Join(got, "\n")); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestARecordOfARequestThatAQuotaRefusedNamesTheLimit(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	raw := `{"id":"us-1-08","path":"/v1/x","tenant":"acme","status":429,"code":"rate_limit_exceeded","totalMs":0.25,
		"quota":{"limit":"acme-tokens/total-tokens","reason":"over_limit","message":"Rate limit reached, in words.","degraded":true}}`
	if _, err := a.printRecord(json.RawMessage(raw)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"ended     429 rate_limit_exceeded after 0.25 ms\nquota     acme-tokens/total-tokens refused it (over_limit), while its quota store was away; `anabranch quota show acme-tokens`",
		"told      Rate limit reached, in words.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestARecordOfARequestThatWasRefusedAtOnce(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	if _, err := a.printRecord(json.RawMessage(`{"id":"us-1-07","path":"/v1/x","status":401,"code":"invalid_api_key","totalMs":0.25}`)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"tenant    -, priority 0", "ended     401 invalid_api_key after 0.25 ms", "no cluster was looked at", "no attempt was made"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if _, err := a.printRecord(json.RawMessage(`{"id":7}`)); err == nil || !strings.Contains(err.Error(), "-o json shows it") {
		t.Errorf("unreadable: %v", err)
	}
}
