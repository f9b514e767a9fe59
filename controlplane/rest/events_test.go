package rest

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"anabranch/api/routerpb"
	"anabranch/controlplane/access"
	"anabranch/controlplane/forward"
	"anabranch/controlplane/signal"
	"anabranch/controlplane/state/statepb"
)

// named gives the next event of a name, and passes others over.
func (s *sse) named(name string, into any) event {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended before %s", name)
		}
		if e.name != name {
			continue
		}
		if into != nil {
			if err := json.Unmarshal([]byte(e.data), into); err != nil {
				s.t.Fatalf("%s: %v in %s", name, err, e.data)
			}
		}
		return e
	}
}

// until reads events until there was one of each name, and gives all but heartbeats.
func (s *sse) until(names ...string) (all []event) {
	s.t.Helper()
	missing := map[string]int{}
	for _, n := range names {
		missing[n]++
	}
	for len(missing) > 0 {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended after %s, without %v", namesOfAll(all), missing)
		}
		if e.name != eventHeartbeat {
			all = append(all, e)
		}
		if missing[e.name]--; missing[e.name] <= 0 {
			delete(missing, e.name)
		}
	}
	return all
}

// namesOfAll are those of some events, sorted: topics do not wait for each other.
func namesOfAll(all []event) string {
	var out []string
	for _, e := range all {
		out = append(out, e.name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestAStreamBeginsWithWhatItWillTell(t *testing.T) {
	d := withCallers(t)
	var hello Hello
	d.watch("/v1/events?topics=fleet,resources,audit,drills,drill/7,rollouts,usage").named(eventHello, &hello)
	if fmt.Sprint(hello.Topics) != "[fleet resources audit drills drill/7 rollouts usage]" || len(hello.Refused) > 0 || hello.Node != "n2" || hello.Revision != d.current().Index() || hello.HeartbeatMs != 20 || hello.Resumed {
		t.Errorf("%+v", hello)
	}
	hello = Hello{}
	d.watchAs("viewer-of-business", "/v1/events?topics=fleet,audit,drills,drill/7,rollouts,usage,status").named(eventHello, &hello)
	if fmt.Sprint(hello.Topics) != "[fleet usage status]" || len(hello.Refused) != 4 || !strings.Contains(hello.Refused["audit"], "everything") {
		t.Errorf("within a scope: %+v", hello)
	}
	for query, want := range map[string]string{
		"": "fleet", "topics=": "topics", "topics=fleet,colours": "colours", "topics=drill": "drill", "topics=drill/x": "drill/x", "topics=drill/01": "drill/01", "topics=fleet/1": "fleet/1",
		"topics=fleet&rate=11": "rate", "topics=fleet&rate=0": "rate", "topics=resources&kind=Thing": "kind", "topics=usage&tenant=a%20b": "tenant",
		"topics=usage" + strings.Repeat("&usageOf=a", 17): "16", "topics=usage&usageOf=": "usageOf", "topics=usage&usageOf=" + strings.Repeat("a", 201): "usageOf",
		"topics=usage" + strings.Repeat("&tenant=a", 17): "16", "topics=drill/1,drill/2,drill/3,drill/4,drill/5,drill/6,drill/7,drill/8,drill/9,drill/10,drill/11,drill/12,drill/13,drill/14,drill/15,drill/16,drill/17,drill/18,drill/19,drill/20,drill/21,drill/22,drill/23,drill/24,drill/25": "24",
	} {
		if p := d.do("viewer", "GET", "/v1/events?"+query, "").want(400, "invalid_request").problem(); !strings.Contains(p.Detail, want) {
			t.Errorf("%.40s: %s, want a word of %s", query, p.Detail, want)
		}
	}
	d.do("", "GET", "/v1/events?topics=fleet", "").want(401, "unauthenticated")
}

// TestEachTopicTellsItsNews opens a stream of one topic, then has something happen.
func TestEachTopicTellsItsNews(t *testing.T) {
	region := func(d *double) { d.seed("Region ap {}") }
	for name, tt := range map[string]struct {
		make   func(*testing.T) *double
		topics string
		first  string // the events before anything happens
		happen func(*double)
		then   string
		hold   string // what the last event has to hold
	}{
		"resources": {nil, "resources", "hello", region, "put", `"kind":"Region","name":"ap"`},
		"resources of some kinds": {nil, "resources&kind=Tenant&kind=Quota", "hello", func(d *double) {
			region(d)
			d.seed("Tenant acme {}")
		}, "put", `"kind":"Tenant","name":"acme"`},
		"a resource that goes": {func(t *testing.T) *double {
			d := newDouble(t)
			region(d)
			return d
		}, "resources", "hello", func(d *double) { d.do("operator", "DELETE", "/v1/regions/ap", "", "If-Match: *").want(204, "") }, "delete", `"name":"ap"`},
		"the audit trail": {nil, "audit", "hello", region, "audit", `"action":"create","kind":"Region","name":"ap"`},
		"proposals": {func(t *testing.T) *double {
			d := newGuarded(t)
			d.raise()
			return d
		}, "proposals", "hello proposal", func(d *double) {
			p := d.current().Proposals()[0]
			d.do("operator", "DELETE", fmt.Sprintf("/v1/proposals/%d", p.GetId()), "").want(200, "")
		}, "proposal", `"state":"withdrawn"`},
		"drills, of which none is under way": {func(t *testing.T) *double { return drilling(t, passing()) }, "drills", "hello", func(d *double) { d.made() }, "drill", `"state":"DRAFT"`},
		"drills, of which one is": {func(t *testing.T) *double {
			d := drilling(t, passing())
			d.running()
			return d
		}, "drills", "hello drill", func(d *double) { d.over(d.current().ActiveDrill().GetId()) }, "drill", `"state":"DONE"`},
		"rollouts": {func(t *testing.T) *double {
			d, _ := newRolling(t)
			return d
		}, "rollouts", "hello rollout", func(d *double) {
			d.do("operator", "POST", "/v1/rollouts/"+fmt.Sprint(d.current().Rollout().GetId())+"/pause", "").want(204, "")
		}, "rollout", `"paused":true`},
		"the status": {nil, "status", "hello status", func(d *double) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.members = append(d.members, Member{ID: "n9"})
		}, "status", `"id":"n9"`},
		"a router that comes": {nil, "routers", "hello", func(d *double) {
			d.join("r-us", "us", 0, nil)
			d.advance(time.Second)
		}, "router", `"id":"r-us","region":"us","version":"v9"`},
		"usage": {limited, "usage", "hello usage", func(d *double) {
			d.signals.Put(signal.Observation{
				Node: "n1", Connected: true, Received: epoch.Add(time.Second), Hello: &routerpb.Hello{RouterId: "r-us", Region: "us"},
				Report: &routerpb.Report{AtUnixMs: epoch.UnixMilli() + 1000, WindowMs: 1000, QuotaStoreOk: true, Quotas: []*routerpb.QuotaSignal{
					{Organisation: "works", Limit: "acme-slots/concurrent-requests", Level: 2, LevelAgeMs: 100, Held: 10, InUse: 9},
				}},
			})
			d.advance(time.Second)
		}, "usage.delta", `"inUse":10`},
		"the fleet": {nil, "fleet", "hello fleet", func(d *double) {
			region(d)
			d.advance(time.Second)
		}, "fleet.delta", `"regions":{"ap":{`},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.make == nil {
				tt.make = func(t *testing.T) *double { return newDouble(t) }
			}
			d := tt.make(t)
			s := d.watchAs("admin", "/v1/events?topics="+tt.topics)
			if got := namesOfAll(s.until(append(strings.Fields(tt.first), eventHeartbeat)...)); got != sorted(tt.first) {
				t.Errorf("first %q, want %q", got, tt.first)
			}
			tt.happen(d)
			if got := s.until(tt.then); len(got) != 1 || !strings.Contains(got[0].data, tt.hold) {
				t.Errorf("then %v, want %q with %s", got, tt.then, tt.hold)
			}
		})
	}
}

func sorted(words string) string {
	all := strings.Fields(words)
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestADrillIsToldAmongOtherTopicsAsByItself(t *testing.T) {
	d := drilling(t, passing())
	id := d.running()
	d.over(id)
	alone := d.watch(fmt.Sprintf("/v1/drills/%d/events", id))
	s := d.watch(fmt.Sprintf("/v1/events?topics=drill/%d,resources", id))
	for {
		want, ok := alone.next()
		if !ok {
			break
		}
		var got DrillEventOf
		s.named("drill.event", &got)
		if got.Kind != want.name || string(got.Data) != want.data || got.ID != fmt.Sprint(id) {
			t.Errorf("told %+v, want %+v", got, want)
		}
	}
}

// TestAStreamGoesOnWhereItWasCutOff has things happen while nobody listens, at any node.
func TestAStreamGoesOnWhereItWasCutOff(t *testing.T) {
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}})
	d.seed("Region us {}")
	const topics = "/v1/events?topics=fleet,routers,resources,audit,proposals,drills,status"
	s := d.watch(topics)
	s.until("hello", "fleet", "status", eventHeartbeat)
	id := s.named(eventHeartbeat, nil).id
	d.seed("Region eu {}")
	d.do("operator", "DELETE", "/v1/regions/us", "", "If-Match: *").want(204, "")
	d.join("r-eu", "eu", 0, nil)
	d.advance(time.Second)
	for place, c := range map[string]struct {
		of   *double
		want string
		and  bool // it is resumed in whole
	}{
		"at the same node": {d, "put delete audit audit fleet.delta router status", true},
		"at another":       {d.twin(), "put delete audit audit fleet relist status", false},
	} {
		t.Run(place, func(t *testing.T) {
			for _, how := range []func() *sse{
				func() *sse { return c.of.watch(topics, "Last-Event-ID: "+id) },
				func() *sse { return c.of.watch(topics + "&after=" + strings.ReplaceAll(id, ",", "%2C")) },
			} {
				s := how()
				var hello Hello
				s.named(eventHello, &hello)
				if got := namesOfAll(s.until(strings.Fields(c.want)...)); got != sorted(c.want) || hello.Resumed != c.and {
					t.Errorf("told %s, resumed %v; want %s", got, hello.Resumed, c.want)
				}
			}
		})
	}
}

// twin is another node of the same cluster.
func (d *double) twin() *double {
	d.t.Helper()
	other := bare(d.t, func(o *Options) { o.Node = "n3" })
	other.mu.Lock()
	defer other.mu.Unlock()
	other.view, other.signals, other.clock = d.current(), d.signals, d.now()
	return other
}

func TestWhatCannotBeResumedBeginsAnew(t *testing.T) {
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 6}})
	const topics = "/v1/events?topics=resources,proposals,audit,drills,fleet,routers"
	for _, id := range []string{
		"1,audit=99999,drills=99999,fleet=other.4,proposals=99999,resources=99999,routers=other.4",
		"1,audit=x,drills=x,fleet=x,proposals=x,resources=-1,routers=x",
	} {
		s := d.watch(topics, "Last-Event-ID: "+id)
		var hello Hello
		s.named(eventHello, &hello)
		var relisted []string
		whole := false
		for _, e := range s.until("relist", "relist", "relist", "relist", "relist", "fleet", eventHeartbeat) {
			var r Relist
			if e.name == eventRelist {
				if err := json.Unmarshal([]byte(e.data), &r); err != nil || r.Revision != d.current().Index() {
					t.Errorf("%+v, %v", e, err)
				}
				relisted = append(relisted, r.Topic)
			}
			whole = whole || e.name == "fleet"
		}
		slices.Sort(relisted)
		if fmt.Sprint(relisted) != "[audit drills proposals resources routers]" || hello.Resumed || !whole {
			t.Errorf("%s: relist %v, resumed %v, a whole fleet %v", id, relisted, hello.Resumed, whole)
		}
	}
	// An id that is none at all is as good as none: nothing was told that could be missed.
	s := d.watch(topics, "Last-Event-ID: 42")
	if got := namesOfAll(s.until("hello", "fleet", eventHeartbeat)); got != "fleet hello" {
		t.Errorf("told %s", got)
	}
}

// TestWithoutALeaderAStreamGoesOn: consoles are needed most then.
func TestWithoutALeaderAStreamGoesOn(t *testing.T) {
	d := newDouble(t)
	d.failing(forward.ErrNoLeader)
	s := d.watch("/v1/events?topics=resources,fleet,status", "Last-Event-ID: 1,resources=99999")
	if got := namesOfAll(s.until("hello", "relist", "fleet", "status", eventHeartbeat)); got != "fleet hello relist status" {
		t.Errorf("told %s", got)
	}
}

func TestAStreamSaysWhyItEnds(t *testing.T) {
	var bye Bye
	d := newDouble(t)
	d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
	d.token("mine", "viewer", access.Scope{})
	s := d.watchAs("mine", "/v1/events?topics=fleet")
	s.named("fleet", nil)
	d.order(&statepb.Command_RevokeToken{RevokeToken: &statepb.RevokeToken{Name: "mine"}})
	if s.named(eventBye, &bye); bye.Reason != "credential" {
		t.Errorf("%+v", bye)
	}
	if e, more := s.next(); more {
		t.Errorf("then %+v", e)
	}
	s = d.watch("/v1/events?topics=fleet")
	s.named("fleet", nil)
	d.server.Drain()
	if s.named(eventBye, &bye); bye.Reason != "shutdown" {
		t.Errorf("%+v", bye)
	}
}

func TestWhoeverIsBoundToTenantsHearsOfNoOthers(t *testing.T) {
	d := withCallers(t)
	s := d.watchAs("viewer-of-business", "/v1/events?topics=resources,proposals,status,fleet,usage")
	s.named(eventHello, nil)
	d.proposals()
	d.do("admin", "PATCH", "/v1/tenants/hidden", `{"spec":{"tier":"top"}}`, "If-Match: *").want(200, "")
	d.do("admin", "PATCH", "/v1/tenants/mine", `{"spec":{"tier":"top"}}`, "If-Match: *").want(200, "")
	for heard := false; !heard; {
		e, more := s.next()
		if !more {
			t.Fatal("what is its own is not told either")
		}
		heard = e.name == "put" && strings.Contains(e.data, `"name":"mine"`)
		if e.name != "fleet" && e.name != "fleet.delta" && strings.Contains(e.data, "hidden") && !strings.Contains(e.data, `"TrafficPolicy"`) && !strings.Contains(e.data, `"SafetyRule"`) {
			t.Errorf("told %+v", e)
		}
	}
}

// TestTheFleetIsWhatItsPatchesMakeOfIt plays changes, and compares with what a new stream is told.
func TestTheFleetIsWhatItsPatchesMakeOfIt(t *testing.T) {
	d := peopled(t)
	s := d.watch("/v1/events?topics=fleet&rate=10")
	var fleet any
	s.named("fleet", &fleet)
	seq := fleet.(map[string]any)["seq"].(float64)
	for i, change := range []func(){
		func() { d.seed("Region ap {zone: ap}") },
		func() { d.join("r-ap", "ap", 3, nil) },
		func() { d.join("r-ap", "ap", 8, &routerpb.Ack{Code: "no"}) },
		func() { d.do("operator", "DELETE", "/v1/regions/ap", "", "If-Match: *").want(204, "") },
	} {
		change()
		d.advance(time.Second)
		var patch any
		s.named("fleet.delta", &patch)
		if seq++; patch.(map[string]any)["seq"] != seq {
			t.Fatalf("patch %d is %v, want %v", i, patch, seq)
		}
		fleet = applied(fleet, patch)
		var whole any
		d.watch("/v1/events?topics=fleet").named("fleet", &whole)
		if !reflect.DeepEqual(fleet, whole) {
			t.Fatalf("patch %d, %v, makes of it\n%v, want\n%v", i, patch, fleet, whole)
		}
	}
}

// TestTheLivePictureAgreesWithTheWholeOne: both are of the same signals.
func TestTheLivePictureAgreesWithTheWholeOne(t *testing.T) {
	d := peopled(t)
	var old Fleet
	d.do("viewer", "GET", "/v1/fleet", "").want(200, "").into(&old)
	var live LiveFleet
	d.watch("/v1/events?topics=fleet").named("fleet", &live)
	if len(old.Regions) == 0 || len(live.Regions) != len(old.Regions) || len(live.Clusters) != len(old.Clusters) || live.TableRevision != old.TableRevision || live.Leader != old.Leader {
		t.Fatalf("live %+v, old %+v", live, old)
	}
	for _, r := range old.Regions {
		l := live.Regions[r.Name]
		if l.Health != r.Health || l.Zone != r.Zone || l.Routers.Total != len(r.Routers) || l.RequestsPerSecond != rough(r.RequestsPerSecond) || l.QuotaStoreOK != r.QuotaStoreOK {
			t.Errorf("region %s: live %+v, old %+v", r.Name, l, r)
		}
	}
	for _, c := range old.Clusters {
		l := live.Clusters[c.Name]
		if l.Health != c.Health || l.Region != c.Region || l.Cap != c.Cap || !l.Since.Equal(c.Since) || l.Saturation != rough(c.Saturation) || l.EndpointsReady != c.Endpoints.Ready || l.Freshness != c.Freshness || l.Usable+l.Ejected != len(c.Observers) {
			t.Errorf("cluster %s: live %+v, old %+v", c.Name, l, c)
		}
		for _, m := range c.ModelHealth {
			if lm := l.Models[m.Model]; lm.Health != m.Health || lm.Cap != m.Cap || lm.Votes != m.Votes || lm.EndpointsReady != m.Endpoints.Ready {
				t.Errorf("model %s on %s: live %+v, old %+v", m.Model, c.Name, lm, m)
			}
		}
	}
	for _, w := range old.Weights {
		for _, c := range w.Clusters {
			l := live.Weights[w.Model][w.Class][w.Source].Clusters[c.Cluster]
			if l.Wanted != rough(c.Wanted) || l.Observed != hundredths(c.Observed) {
				t.Errorf("weight of %s at %s: live %+v, old %+v", c.Cluster, w.Source, l, c)
			}
		}
	}
}

// TestWhoReadsSlowlyFindsTheNewestAndNoQueue looks at what a feed keeps for somebody who is far behind.
func TestWhoReadsSlowlyFindsTheNewestAndNoQueue(t *testing.T) {
	d := newUnserved(t)
	var f liveFeed
	_, _, first, err := f.since(d.server, 0)
	if err != nil || first != 1 {
		t.Fatal(first, err)
	}
	for i := range keptPatches + 10 {
		d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
		d.advance(time.Second)
		if _, patches, _, err := f.since(d.server, uint64(i+1)); err != nil || len(patches) != 1 {
			t.Fatalf("%d: %d patches, %v", i, len(patches), err)
		}
	}
	if len(f.patches) > 2*keptPatches || len(f.news) > 2*keptRouters {
		t.Errorf("%d patches and %d routers are kept", len(f.patches), len(f.news))
	}
	whole, patches, seq, err := f.since(d.server, first)
	if err != nil || whole == nil || patches != nil || seq != keptPatches+11 {
		t.Errorf("far behind: %d patches, picture %d, %v", len(patches), seq, err)
	}
	if _, patches, _, _ := f.since(d.server, seq-keptPatches); len(patches) != keptPatches {
		t.Errorf("as far as patches reach: %d", len(patches))
	}
	for i := range 2 * keptRouters { // all turn at once
		d.join(fmt.Sprintf("r-%d", i), "eu", 0, nil)
	}
	d.advance(time.Second)
	if _, _, ok, err := f.routersSince(d.server, 1); ok || err != nil {
		t.Errorf("so many routers are told one by one: %v", err)
	}
}

func TestStreamsAreCompressedForThoseWhoTakeIt(t *testing.T) {
	d := peopled(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/events?topics=fleet", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret-viewer")
	req.Header.Set("Accept-Encoding", "br, gzip;q=0.5") // said by hand, the client leaves it as it comes
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Vary") == "" {
		t.Fatalf("headers %v", resp.Header)
	}
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for b := make([]byte, 1024); !strings.Contains(text.String(), "event: heartbeat"); { // each event comes when it is sent
		n, err := z.Read(b)
		text.Write(b[:n])
		if err != nil {
			t.Fatalf("%v after %s", err, text.String())
		}
	}
	d.server.Drain()
	rest, err := io.ReadAll(z)
	if err != nil || !strings.Contains(string(rest), "event: bye") {
		t.Errorf("the end is %.200s, %v", rest, err)
	}
	for accept, want := range map[string]bool{"": false, "br": false, "gzip": true, "GZIP": true, "deflate, gzip;q=1": true, "gzip;q=0": false, "gzip; q=0": false, "xgzip": false} {
		if got := takesGzip(accept); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

func TestASessionMayStream(t *testing.T) {
	d := newDouble(t)
	b := d.browser()
	b.signIn("viewer")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/v1/events?topics=fleet", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	first := make([]byte, 4096)
	if n, err := resp.Body.Read(first); resp.StatusCode != http.StatusOK || err != nil || !strings.Contains(string(first[:n]), "event: hello") {
		t.Errorf("status %d, %s, %v", resp.StatusCode, first, err)
	}
	d.advance(SessionLifetime)
	if rest, err := io.ReadAll(resp.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(rest), `{"reason":"credential"}`) {
		t.Errorf("the end is %s, %v", rest, err)
	}
}

func FuzzPlacesAreReadAsTheyWereWritten(f *testing.F) {
	f.Add("1,a=1,b=2")
	f.Add("1")
	f.Add("1,a=,b")
	f.Add("1,b=2,a=1")
	f.Fuzz(func(t *testing.T, id string) {
		k, ok := parseCursors(id)
		if ok && (k.String() != id || len(k) > maxTopics) {
			t.Errorf("%q is taken, and written as %q", id, k)
		}
		if again, ok := parseCursors(k.String()); len(k.String()) <= maxEventID && ok && !reflect.DeepEqual(again, k) && len(k) > 0 {
			t.Errorf("%v came back as %v", k, again)
		}
	})
}
