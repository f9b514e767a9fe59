package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"anabranch/api/fleet"
	"anabranch/api/routerpb"
	"anabranch/dataplane/subscribe"
	"anabranch/dataplane/subscribe/lastgood"
	"anabranch/dataplane/table"
)

// cursed is the zone of a region in a table with which a fragile router ends.
const cursed = "cursed"

// fragile is a router of which the subscriber is real: it ends, as by a crash, whenever it takes a table
// with the cursed zone, and begins anew on what is on its disk.
type fragile struct {
	t        *testing.T
	id       fleet.RouterID
	region   fleet.RegionID
	address  string
	holder   *table.Holder
	mu       sync.Mutex // guards what follows
	crashes  int
	bad      int // tables with the zone that it took
	revision uint64
}

func newFragile(t *testing.T, id fleet.RouterID, region fleet.RegionID, address string) *fragile {
	t.Helper()
	f := &fragile{t: t, id: id, region: region, address: address, holder: &table.Holder{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for disk, life := t.TempDir(), 1; ctx.Err() == nil; life++ {
			disk = f.live(ctx, disk, filepath.Join(t.TempDir(), fmt.Sprint(life)))
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// live runs until ctx ends or a table ends it, and gives the folder as it was then.
func (f *fragile) live(ctx context.Context, disk, copied string) string {
	ctx, crash := context.WithCancel(ctx)
	defer crash()
	dir, err := lastgood.Open(disk)
	if err != nil {
		f.t.Error(err)
		return disk
	}
	next, holder := disk, &table.Holder{}
	s, err := subscribe.New(subscribe.Options{
		Addresses: []string{f.address}, Router: f.id, Region: f.region, Version: "test", Holder: holder, LastGood: dir,
		Logger: slog.New(slog.DiscardHandler), Period: 100 * time.Millisecond,
		Report: func(now time.Time) *routerpb.Report {
			r := &routerpb.Report{AtUnixMs: now.UnixMilli(), WindowMs: 100, QuotaStoreOk: true}
			if held := holder.Load(); held != nil {
				r.Applied = held.Ref.Proto()
			}
			return r
		},
		Applied: func(t *table.Table) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.revision = t.Ref.Revision
			if t.Regions["us"].Zone != cursed {
				// What it lives with has proved itself, without half a minute of waiting.
				if err := dir.Prove(time.Now().Add(time.Hour)); err != nil {
					f.t.Error(err)
				}
				return
			}
			f.bad++
			if next == disk {
				f.crashes++
				if err := os.CopyFS(copied, os.DirFS(disk)); err != nil {
					f.t.Error(err)
				}
				next = copied
				crash()
			}
		},
	})
	if err != nil {
		f.t.Error(err)
		return disk
	}
	if err := s.Restore(); err != nil && !errors.Is(err, lastgood.ErrNone) {
		f.t.Error(err)
	}
	if next != disk { // it ended before it could connect
		return next
	}
	if err := s.Run(ctx); err != nil {
		f.t.Error(err)
	}
	return next
}

// told gives what became of the router.
func (f *fragile) told() (crashes, bad int, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashes, f.bad, f.revision
}

func TestATableThatEndsTheCanaryIsTakenBackAndReachesNoSecondRegion(t *testing.T) {
	t.Parallel()
	m := cluster(t, 1)[0]
	post := func(plural, kind, name, spec string) {
		t.Helper()
		body := fmt.Sprintf(`{"apiVersion":"anabranch/v1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec)
		m.await(t, "able to take "+plural, func() bool {
			status, doc := m.call(t, http.MethodPost, "/v1/"+plural, body, nil)
			if status != http.StatusCreated && status != http.StatusServiceUnavailable { // until the feature level is there
				t.Fatalf("%s %s: %d %v", kind, name, status, doc)
			}
			return status == http.StatusCreated
		})
	}
	for _, region := range []string{"eu", "us"} {
		post("regions", "Region", region, `{"peerURLs":["https://`+region+`:1"]}`)
	}
	post("models", "Model", "m", `{}`)
	for _, region := range []string{"eu", "us"} {
		post("clusters", "Cluster", region+"-a", `{"region":"`+region+`","models":["m"],"endpoints":[{"id":"e","url":"http://`+region+`:1","class":"h100"}]}`)
	}
	m.await(t, "planning", func() bool { return m.store.View().Table() != nil })
	post("safetyrules", "SafetyRule", "s", `{"rollout":{"canary":{"router":"r-eu-1","bakeSeconds":30},"region":{"bakeSeconds":30}}}`)

	address := m.Addresses().GRPC
	canary, neighbour, far := newFragile(t, "r-eu-1", "eu", address), newFragile(t, "r-eu-2", "eu", address), newFragile(t, "r-us-1", "us", address)
	all := []*fragile{canary, neighbour, far}
	m.await(t, "served", func() bool {
		for _, f := range all {
			if _, _, revision := f.told(); revision == 0 {
				return false
			}
		}
		return true
	})
	if status, doc := m.call(t, http.MethodPatch, "/v1/regions/us", `{"spec":{"zone":"`+cursed+`"}}`, map[string]string{"If-Match": "*"}); status != http.StatusOK {
		t.Fatalf("patch: %d %v", status, doc)
	}
	var last map[string]any
	m.await(t, "rid of the table", func() bool {
		_, doc := m.call(t, http.MethodGet, "/v1/rollouts", "", nil)
		items, _ := doc["items"].([]any)
		if len(items) == 0 {
			return false
		}
		last, _ = items[0].(map[string]any)
		return last["stage"] == "returned"
	})
	if reason, _ := last["reason"].(string); last["canary"] != "r-eu-1" || !strings.Contains(reason, "r-eu-1 refused the table: "+subscribe.CodeCrashLoop) {
		t.Errorf("rollout %v", last)
	}
	m.await(t, "whole again", func() bool {
		for _, f := range all {
			if _, _, revision := f.told(); revision != m.store.View().Table().GetRef().GetRevision() {
				return false
			}
		}
		return true
	})
	if crashes, _, _ := canary.told(); crashes < 2 {
		t.Errorf("the canary ended %d times", crashes)
	}
	for _, f := range all[1:] {
		if _, bad, _ := f.told(); bad > 0 {
			t.Errorf("the table came to %s", f.id)
		}
	}
	_, st := m.call(t, http.MethodGet, "/v1/status", "", nil)
	if st["returned"] != true || st["heldBack"] != true || st["rollout"] != nil || len(m.store.View().Rollouts()) != 1 {
		t.Errorf("status %v", st)
	}
	if _, doc := m.call(t, http.MethodGet, "/v1/regions/us", "", nil); fmt.Sprint(doc["spec"]) != "map[peerURLs:[https://us:1] zone:"+cursed+"]" {
		t.Errorf("what the operator wrote is %v", doc["spec"])
	}
}
