package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"anabranch/controlplane/policy"
)

// follower keeps a copy of the tenants by watching, and is cut off again and again.
type follower struct {
	d     *double
	known map[string]string // name: tier and revision
	last  string            // Last-Event-ID
}

// follow takes in up to n events of one connection; false: it has seen the revision until.
func (f *follower) follow(n int, until uint64) bool {
	f.d.t.Helper()
	var headers []string
	if f.last != "" {
		headers = append(headers, "Last-Event-ID: "+f.last)
	}
	w := f.d.watch("/v1/tenants?watch=true", headers...)
	for range n {
		if f.reached(until) {
			return true
		}
		e, ok := w.next()
		if !ok {
			f.d.t.Fatal("the watch ended")
		}
		f.last = e.id
		var body Event
		if err := json.Unmarshal([]byte(e.data), &body); err != nil {
			f.d.t.Fatal(err)
		}
		switch e.name {
		case eventPut:
			f.known[body.Name] = told(body.Resource)
		case eventDelete:
			delete(f.known, body.Name)
		case eventRelist:
			f.d.t.Fatal("told to list anew, within the history")
		}
	}
	return f.reached(until)
}

func (f *follower) reached(until uint64) bool {
	at, err := strconv.ParseUint(f.last, 10, 64)
	return err == nil && at >= until
}

func told(r *policy.Resource) string {
	return fmt.Sprintf("%s at %d", r.Spec.(*policy.TenantSpec).Tier, r.Metadata.Revision)
}

func TestAFollowerThatIsCutOffKnowsTheSameInTheEnd(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			d := newDouble(t)
			rnd := rand.New(rand.NewPCG(seed, 1))
			f := &follower{d: d, known: map[string]string{}}
			for range 12 {
				for range rnd.IntN(6) {
					name := fmt.Sprintf("t%d", rnd.IntN(6))
					if _, there := d.current().Get(policy.KindTenant, name); !there {
						d.seed("Tenant " + name + " {}")
					} else if rnd.IntN(3) == 0 {
						d.do("operator", "DELETE", "/v1/tenants/"+name, "", "If-Match: *").want(204, "")
					} else {
						d.do("operator", "PATCH", "/v1/tenants/"+name, "{spec: {tier: "+policy.Tiers()[rnd.IntN(4)]+"}}", "If-Match: *").want(200, "")
					}
				}
				f.follow(rnd.IntN(4), d.current().Revision(policy.KindTenant))
			}
			d.seed("Tenant last {}")
			until := d.current().Revision(policy.KindTenant)
			for tries := 0; !f.follow(5, until); tries++ {
				if tries > 20 {
					t.Fatal("never reaches the end")
				}
			}
			want := map[string]string{}
			for _, r := range d.current().List(policy.KindTenant) {
				want[r.Metadata.Name] = told(r)
			}
			if !maps.Equal(f.known, want) {
				t.Errorf("follows %v, there is %v", f.known, want)
			}
		})
	}
}

// Writers that read, add themselves and write with If-Match lose no update to each other.
func TestNoUpdateIsLost(t *testing.T) {
	d := newDouble(t)
	d.seed("Region home {}", "Tenant shared {}")
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				add(d, fmt.Sprintf("w%d-%d", w, i))
			}
		})
	}
	wg.Wait()
	r, _ := d.current().Get(policy.KindTenant, "shared")
	if got := len(r.Metadata.Labels); got != writers*each {
		t.Errorf("%d of %d updates are there: %v", got, writers*each, slices.Sorted(maps.Keys(r.Metadata.Labels)))
	}
}

func add(d *double, label string) {
	for {
		was := d.do("viewer", "GET", "/v1/tenants/shared", "")
		a := d.do("operator", "PATCH", "/v1/tenants/shared", `{"metadata":{"labels":{"`+label+`":"x"}}}`, "If-Match: "+was.header.Get("ETag"))
		switch a.status {
		case 200:
			return
		case 412:
		default:
			d.t.Errorf("status %d: %s", a.status, a.body)
			return
		}
	}
}

func TestHeadersAndStatusOfAllKinds(t *testing.T) {
	d := newDouble(t)
	docs := map[policy.Kind]string{
		policy.KindRegion:        "{zone: eu}",
		policy.KindModel:         "{adapters: [l]}",
		policy.KindCluster:       "{region: x, models: [x], endpoints: [{id: p, url: 'http://p', class: h}]}",
		policy.KindTenant:        "{residency: [x]}",
		policy.KindTrafficPolicy: "{regions: [{region: x}]}",
		policy.KindQuota:         "{tenant: x, model: x, limits: [{kind: requests, perMinute: 5}]}",
		policy.KindRateCard:      "{models: [{model: x, inputPerMTok: 1, outputPerMTok: 2}]}",
		policy.KindSafetyRule:    "{changeLimit: {maxMovedShare: 0.5}}",
		policy.KindDrillPlan:     "{kind: hard, target: {region: x}, models: [x], schedule: {cron: 0 4 * * Tue, timeZone: Europe/Berlin}}",
	}
	for _, kind := range policy.Kinds() { // in an order in which references are there
		path := "/v1/" + policy.Plural(kind)
		body := doc(string(kind), "x", docs[kind])
		made := d.do("operator", "PUT", path+"/x", body, yaml, "If-None-Match: *").want(201, "")
		if made.header.Get("Location") != path+"/x" || made.header.Get("ETag") == "" {
			t.Errorf("%s: %v", kind, made.header)
		}
		var r policy.Resource
		d.do("viewer", "GET", path+"/x", "").want(200, "").into(&r)
		if r.Kind != kind || r.Metadata.Name != "x" {
			t.Errorf("%s: got %+v", kind, r)
		}
		want, _ := policy.Parse([]byte(body))
		if a, b := string(policy.Canonical(&r)), string(policy.Canonical(want)); a != b {
			t.Errorf("%s: got %s, sent %s", kind, a, b)
		}
	}
	kinds := policy.Kinds()
	slices.Reverse(kinds)
	for _, kind := range kinds {
		d.do("admin", "DELETE", "/v1/"+policy.Plural(kind)+"/x", "", "If-Match: *").want(204, "")
	}
	var names []string
	for _, e := range d.current().Audit(1, 0) {
		names = append(names, e.GetAction())
	}
	if got := strings.Join(names, " "); got != strings.TrimSpace(strings.Repeat("create ", len(kinds))+strings.Repeat("delete ", len(kinds))) {
		t.Errorf("audit %s", got)
	}
}
