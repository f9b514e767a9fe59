package node

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
	"anabranch/failover/drill"
)

// underWay is a drill that has leases, and what was known of it then.
type underWay struct {
	path   string
	id     uint64
	kept   *statepb.Drill
	killed time.Time
}

// drillOf has two people bring a drill to where it has leases. No router is there to follow it, for which they have 30 s.
func drillOf(t *testing.T, m *member) *underWay {
	t.Helper()
	say := func(want int, path, body string, header map[string]string) map[string]any {
		t.Helper()
		status, doc := m.call(t, http.MethodPost, path, body, header)
		if status != want {
			t.Fatalf("%s: %d %v", path, status, doc)
		}
		return doc
	}
	m.await(t, "at a level with drills", func() bool { return m.store.View().FeatureLevel() >= 6 })
	say(http.StatusCreated, "/v1/models", `{"apiVersion":"anabranch/v1","kind":"Model","metadata":{"name":"m"},"spec":{}}`, nil)
	say(http.StatusCreated, "/v1/clusters", `{"apiVersion":"anabranch/v1","kind":"Cluster","metadata":{"name":"before-a"},
		"spec":{"region":"before","models":["m"],"endpoints":[{"id":"e","url":"http://127.0.0.1:1","class":"h100"}]}}`, nil)
	bob := say(http.StatusCreated, "/v1/tokens", `{"name":"bob","role":"approver"}`, nil)
	d := say(http.StatusCreated, "/v1/drills", `{"spec":{"kind":"quota-store","baselineSeconds":1}}`, nil)
	u := &underWay{path: fmt.Sprint("/v1/drills/", d["id"])}
	if _, err := fmt.Sscan(fmt.Sprint(d["id"]), &u.id); err != nil {
		t.Fatal(err)
	}
	d = say(http.StatusOK, u.path+":validate", "", nil)
	say(http.StatusOK, u.path+":approve", fmt.Sprintf(`{"planSha256":%q}`, d["planSha256"]), map[string]string{"Authorization": fmt.Sprint("Bearer ", bob["secret"])})
	say(http.StatusOK, u.path+":start", "", nil)
	m.await(t, "shifting", func() bool {
		u.kept = m.store.View().Drill(u.id)
		switch {
		case u.kept.GetOutcome() != "":
			t.Fatalf("it is %s: %s", u.kept.GetOutcome(), u.kept.GetReason())
		case u.kept.GetState() == string(drill.Paused): // a slow machine has changed its leader
			m.call(t, http.MethodPost, u.path+":resume", "", nil)
		}
		return u.kept.GetState() == string(drill.Shifting)
	})
	return u
}

// survives: the leader's successor has paused the drill and lost nothing of it; it goes on when somebody says so, and ends
// when somebody says that. A successor that took longer than a drill waits for one has rolled it back.
func (u *underWay) survives(t *testing.T, m *member) {
	t.Helper()
	var d *statepb.Drill
	m.await(t, "paused", func() bool {
		d = m.store.View().Drill(u.id)
		return d.GetState() != string(drill.Shifting)
	})
	if d.GetState() != string(drill.Paused) && d.GetCause() == string(drill.CauseLeader) && time.Since(u.killed) > drill.LeaderGap {
		t.Logf("nobody led for long: %s", d.GetReason())
		return
	}
	if d.GetState() != string(drill.Paused) || d.GetResume() != string(drill.Shifting) || d.GetCause() != string(drill.CauseLeader) {
		t.Fatalf("%s, to go on with %s, by %s: %s", d.GetState(), d.GetResume(), d.GetCause(), d.GetReason())
	}
	for name, same := range map[string]bool{
		"baseline":  len(d.GetBaseline()) > 0 && string(d.GetBaseline()) == string(u.kept.GetBaseline()),
		"table":     string(d.GetBaseSha256()) == string(u.kept.GetBaseSha256()),
		"end":       d.GetNotAfterUnixMs() == u.kept.GetNotAfterUnixMs() && d.GetNotAfterUnixMs() != 0,
		"plan":      string(d.GetPlanSha256()) == string(u.kept.GetPlanSha256()) && string(d.GetSpec()) == string(u.kept.GetSpec()),
		"approvals": len(d.GetApprovals()) == 1 && proto.Equal(d.GetApprovals()[0], u.kept.GetApprovals()[0]),
		"samples":   len(d.GetSamples()) >= len(u.kept.GetSamples()),
		"events":    len(d.GetEvents()) > len(u.kept.GetEvents()),
	} {
		if !same {
			t.Errorf("%s: is not what it was\nnow  %v\nthen %v", name, d, u.kept)
		}
	}
	for _, act := range []struct {
		say  string
		want drill.State
	}{{"resume", drill.Shifting}, {"abort", drill.RollingBack}} {
		if status, doc := m.call(t, http.MethodPost, u.path+":"+act.say, "", nil); status != http.StatusOK || doc["state"] != string(act.want) {
			t.Errorf("%s: %d %v", act.say, status, doc)
		}
	}
}
