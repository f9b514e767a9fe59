package rest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/audit"
	"anabranch/controlplane/state/statepb"
)

// third raises the feature level to 3.
func (d *double) third() *double {
	d.t.Helper()
	d.apply(&statepb.Command{Format: 3, Op: &statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}}})
	return d
}

func TestAuditIsListedNewestFirst(t *testing.T) {
	d := newDouble(t)
	d.seed("Region us {}", "Region eu {}", "Region ap {}")
	var got []string
	next := ""
	for pages := 1; ; pages++ {
		var page List[audit.Entry]
		d.do("viewer", "GET", "/v1/audit?limit=3&cursor="+next, "").want(200, "").into(&page)
		for _, e := range page.Items {
			got = append(got, e.Action+" "+e.Name)
			if len(e.SHA256) != 64 || len(e.PreviousSHA256) != 64 {
				t.Errorf("got %+v", e)
			}
		}
		if next = page.NextCursor; next == "" {
			break
		}
		if pages > 5 {
			t.Fatal("no end")
		}
	}
	if want := []string{"create ap", "create eu", "create us", "init c-1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheAuditTrailIsFiltered(t *testing.T) {
	d := newDouble(t).third()
	d.seed("Region us {}", "Tenant acme {}") // 3, 4
	d.advance(time.Hour)
	d.do("admin", "DELETE", "/v1/regions/us", "", "If-Match: *", "X-Request-Id: mine").want(204, "") // 5
	d.do("viewer", "POST", "/v1/regions", "").want(403, "forbidden")                                 // 6
	for query, want := range map[string]string{
		"":                              "denied delete create create update init",
		"order=asc":                     "init update create create delete denied",
		"actor=operator":                "create create",
		"actor=operator&kind=Region":    "create",
		"role=admin":                    "delete",
		"action=create&name=ac*":        "create",
		"kind=Region&name=us&order=asc": "create delete denied",
		"code=forbidden":                "denied",
		"requestId=mine":                "delete",
		"since=4":                       "denied delete",
		"sequence=3":                    "create",
		"from=2026-11-29T12:59:00Z":     "denied delete",
		"to=2026-11-29T12:59:00Z&from=2026-01-01T00:00:00Z": "create create",
		"actor=nobody": "",
	} {
		if query == "kind=Region&name=us&order=asc" {
			want = "create delete" // the refusal of a POST names nobody
		}
		var got []string
		for next := ""; ; {
			var page List[audit.Entry]
			d.do("viewer", "GET", "/v1/audit?limit=1&"+query+"&cursor="+next, "").want(200, "").into(&page)
			for _, e := range page.Items {
				got = append(got, e.Action)
			}
			if next = page.NextCursor; next == "" {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	var page List[audit.Entry]
	d.do("viewer", "GET", "/v1/audit?limit=1&order=asc", "").into(&page)
	for _, bad := range []string{"order=up", "from=yesterday", "to=1", "since=-1", "sequence=x", "cursor=" + page.NextCursor, "limit=0"} {
		d.do("viewer", "GET", "/v1/audit?"+bad, "").want(400, "invalid_request")
	}
}

func TestTheExportOfAServerVerifies(t *testing.T) {
	d := newDouble(t)
	d.seed("Region eu {}")
	d.third()
	d.seed("Region us {}", "Tenant acme {}")
	d.do("operator", "PUT", "/v1/regions/us", doc("Region", "us", "{zone: b}"), yaml, "If-Match: *").want(200, "")
	a := d.do("viewer", "GET", "/v1/audit/export", "").want(200, "")
	if got := a.header.Get("Content-Type"); got != "application/x-ndjson" {
		t.Errorf("content type %q", got)
	}
	var c audit.Chain
	err := audit.Read(bytes.NewReader(a.body), func(e audit.Entry) error {
		h, err := e.Hashed()
		if err != nil {
			return err
		}
		return c.Add(h)
	})
	if err != nil || c.Count() != 6 || !c.Whole() || c.Last().GetSequence() != 6 {
		t.Errorf("%v: %d entries of\n%s", err, c.Count(), a.body)
	}
	if got := c.Last().GetChanges(); len(got) != 1 || got[0].GetField() != "spec.zone" || got[0].GetTo() != `"b"` {
		t.Errorf("changes %v", got)
	}
	if a.header.Get("X-Anabranch-Revision") != "6" {
		t.Errorf("revision %q", a.header.Get("X-Anabranch-Revision"))
	}
	d.do("viewer", "GET", "/v1/audit/export?consistency=guess", "").want(400, "invalid_request")
	d.failing(errNoLeaderForTest)
	d.do("viewer", "GET", "/v1/audit/export", "").want(503, "no_leader")
	d.do("viewer", "GET", "/v1/audit/export?consistency=stale", "").want(200, "")
}

// expectEntries reads entries of a watch of the trail, written as "number action name".
func (s *sse) expectEntries(want ...string) {
	s.t.Helper()
	for _, w := range want {
		e, ok := s.next()
		var entry audit.Entry
		if !ok || e.name != eventEntry {
			s.t.Fatalf("got %+v, %v", e, ok)
		}
		if err := json.Unmarshal([]byte(e.data), &entry); err != nil {
			s.t.Fatal(err)
		}
		if got := e.id + " " + entry.Action + " " + entry.Name; got != w || strconv.FormatUint(entry.Sequence, 10) != e.id {
			s.t.Fatalf("got %q of %d, want %q", got, entry.Sequence, w)
		}
	}
}

func TestTheTrailIsWatched(t *testing.T) {
	d := newDouble(t).third()
	d.seed("Region us {}")
	w := d.watch("/v1/audit/watch")
	d.seed("Region eu {}", "Tenant acme {}")
	w.expectEntries("4 create eu", "5 create acme")
	d.watch("/v1/audit/watch?after=2").expectEntries("3 create us", "4 create eu", "5 create acme")
	d.watch("/v1/audit/watch", "Last-Event-ID: 0").expectEntries("1 init c-1", "2 update 3")
	d.do("viewer", "GET", "/v1/audit/watch?after=6", "").want(410, "gone")
	d.do("viewer", "GET", "/v1/audit/watch?after=x", "").want(400, "invalid_request")
	d.do("viewer", "HEAD", "/v1/audit/watch", "").want(200, "")
	d.do("viewer", "HEAD", "/v1/audit/export", "").want(200, "")
	d.failing(errNoLeaderForTest)
	d.do("viewer", "GET", "/v1/audit/watch?after=1", "").want(503, "no_leader")
}
