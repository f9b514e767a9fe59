package rest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/access"
	"anabranch/controlplane/account"
	"anabranch/costmodel"
)

// asked reads a question at the epoch.
func asked(query, accept string) (costQuery, error) {
	r := httptest.NewRequest(http.MethodGet, "/v1/costs?"+query, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return costQueryOf(echo.New().NewContext(r, httptest.NewRecorder()), epoch)
}

func TestWhatAQuestionAboutCostsMeans(t *testing.T) {
	day := 24 * time.Hour
	for query, want := range map[string]func(*costQuery){
		"":                                 nil,
		"since=90m":                        func(q *costQuery) { q.From = epoch.Add(-90 * time.Minute) },
		"since=31d":                        func(q *costQuery) { q.From = epoch.Add(-31 * day) },
		"from=2026-11-01":                  func(q *costQuery) { q.From = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) },
		"from=2026-11-29T11:30:00%2B01:00": func(q *costQuery) { q.From = epoch.Add(-90 * time.Minute) },
		"until=2026-11-29&since=1h":        func(q *costQuery) { q.Until, q.From = epoch.Add(-12*time.Hour), epoch.Add(-13*time.Hour) },
		"until=2026-11-29":                 func(q *costQuery) { q.Until, q.From = epoch.Add(-12*time.Hour), epoch.Add(-36*time.Hour) },
		"from=2026-11-01&until=2026-11-02": func(q *costQuery) {
			q.From, q.Until = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
		},
		"by=model,region":                     func(q *costQuery) { q.by, q.By = []string{"model", "region"}, costmodel.ByModel|costmodel.ByRegion },
		"by=source":                           func(q *costQuery) { q.by, q.By = []string{"source"}, costmodel.BySource },
		"step=hour":                           func(q *costQuery) { q.step, q.Step = "hour", account.ByHour },
		"step=none&idle=apart&format=json":    nil,
		"idle=spread":                         func(q *costQuery) { q.idle, q.SpreadIdle = "spread", true },
		"tenant=acme&tenant=globex&model=m/x": func(q *costQuery) { q.Tenants, q.Models = []fleet.TenantID{"acme", "globex"}, []fleet.ModelID{"m/x"} },
		"class=batch&cluster=c&region=us&source=eu": func(q *costQuery) {
			q.Classes, q.Clusters, q.Regions, q.Sources = []fleet.ClassID{"batch"}, []fleet.ClusterID{"c"}, []fleet.RegionID{"us"}, []fleet.RegionID{"eu"}
		},
		"sort=perAnswer&limit=7": func(q *costQuery) { q.down, q.limit = false, 7 },
		"sort=-name":             nil,
		"format=csv": func(q *costQuery) {
			q.csv, q.limit, q.step, q.Step = true, 0, "day", account.ByDay
			q.by = []string{"tenant", "model", "class", "cluster", "region"}
			q.By = costmodel.ByTenant | costmodel.ByModel | costmodel.ByClass | costmodel.ByCluster | costmodel.ByRegion
		},
		"format=csv&by=tenant&step=hour&limit=9": func(q *costQuery) { q.csv, q.limit, q.step, q.Step = true, 9, "hour", account.ByHour },
	} {
		got, err := asked(query, "")
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		exp := costQuery{
			Query: account.Query{From: epoch.Add(-day), Until: epoch, By: costmodel.ByTenant}, by: []string{"tenant"}, step: "none", idle: "apart", limit: defaultLimit, down: true,
		}
		if want != nil {
			want(&exp)
		}
		if !got.From.Equal(exp.From) || !got.Until.Equal(exp.Until) || got.By != exp.By || got.Step != exp.Step || got.SpreadIdle != exp.SpreadIdle || got.down != exp.down ||
			got.limit != exp.limit || got.csv != exp.csv || got.step != exp.step || got.idle != exp.idle || !slices.Equal(got.by, exp.by) ||
			!slices.Equal(got.Tenants, exp.Tenants) || !slices.Equal(got.Models, exp.Models) || !slices.Equal(got.Classes, exp.Classes) ||
			!slices.Equal(got.Clusters, exp.Clusters) || !slices.Equal(got.Regions, exp.Regions) || !slices.Equal(got.Sources, exp.Sources) {
			t.Errorf("%s: got %+v, want %+v", query, got, exp)
		}
	}
}

func TestQuestionsAboutCostsThatMakeNoSenseAreRefused(t *testing.T) {
	for query, says := range map[string]string{
		"by=":                              "", // as if it were not there
		"by=colour":                        `by has "colour"; use tenant, model, class, cluster, region, source`,
		"by=tenant,tenant":                 "by has tenant twice",
		"by=tenant,":                       `by has ""`,
		"step=week":                        "step is",
		"idle=hidden":                      "idle is",
		"since=1h&from=2026-11-01":         "give one of them",
		"since=-1h":                        "since is",
		"since=30s":                        "a minute or more",
		"since=1y":                         "such as 90m, 24h or 31d",
		"since=9999d":                      "since is",
		"from=yesterday":                   "from is",
		"until=2026-13-01":                 "until is",
		"from=0001-01-01T00:00:00Z":        "from is",
		"from=2026-12-01":                  "from is not before until",
		"from=2026-11-01&until=2026-11-01": "from is not before until",
		"tenant=%3Dcmd":                    "tenant",
		"model=a%20b":                      "model",
		"region=%2A":                       "region",
		strings.Repeat("tenant=a&", 101):   "more than 100 names of tenant",
		"sort=price":                       "sort is",
		"limit=0":                          "limit is",
		"limit=1001":                       "limit is",
		"format=xml":                       "format is",
		"format=csv&step=none":             "charge periods",
		"format=csv&limit=x":               "limit is",
	} {
		_, err := asked(query, "")
		var p *Problem
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", query, err)
			}
			continue
		}
		if !errors.As(err, &p) || p.Code != codeInvalidRequest || !strings.Contains(p.Detail, says) {
			t.Errorf("%s: %v, want %q", query, err, says)
		}
	}
}

func TestWhoAcceptsCSVGetsAFile(t *testing.T) {
	for accept, want := range map[string]bool{
		"text/csv": true, "text/csv;header=present, application/json": true, "application/json, text/csv": false, "*/*": false, "": false, "text/csvx": false,
	} {
		if got, err := asked("", accept); err != nil || got.csv != want {
			t.Errorf("%q: %v %v", accept, got.csv, err)
		}
		if got, err := asked("format=json", accept); err != nil || got.csv {
			t.Errorf("%q with format=json: %v %v", accept, got.csv, err)
		}
	}
}

func TestAScopeNarrowsAQuestionAboutCosts(t *testing.T) {
	for name, tt := range map[string]struct {
		asked, scope, want []string
		nobody             bool
	}{
		"none":               {nil, nil, nil, false},
		"asked for":          {[]string{"a", "b"}, nil, []string{"a", "b"}, false},
		"all that are seen":  {nil, []string{"a", "b"}, []string{"a", "b"}, false},
		"one that is seen":   {[]string{"a"}, []string{"a", "b"}, []string{"a"}, false},
		"one that is hidden": {[]string{"c"}, []string{"a", "b"}, []string{"a", "b"}, true},
		"one of each":        {[]string{"c", "b"}, []string{"a", "b"}, []string{"b"}, false},
	} {
		q := costQuery{}
		for _, s := range tt.asked {
			q.Tenants = append(q.Tenants, fleet.TenantID(s))
		}
		nobody := q.narrow(access.Scope{Tenants: tt.scope})
		var got []string
		for _, s := range q.Tenants {
			got = append(got, string(s))
		}
		if nobody != tt.nobody || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, nobody %v", name, got, nobody)
		}
	}
	q := costQuery{}
	if q.narrow(access.Scope{Regions: []string{"us"}}) || q.Tenants != nil {
		t.Error("a scope of regions hides costs, which all who may read see by region")
	}
}

// FuzzCostQuery: whatever is asked, there is a question with bounds, or a problem of the caller's.
func FuzzCostQuery(f *testing.F) {
	for _, s := range []string{"", "since=24h&by=tenant,model", "from=2026-11-01&until=2026-11-30T00:00:00Z&step=day", "format=csv&sort=-paid&limit=10", "since=999d", "tenant=a&tenant=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, err := asked(values.Encode(), "")
		var p *Problem
		switch {
		case err != nil:
			if !errors.As(err, &p) || p.Status != 400 {
				t.Errorf("%q: %v", query, err)
			}
		case !q.From.Before(q.Until), q.By == 0, q.limit > maxLimit, q.limit == 0 && !q.csv, len(q.Tenants) > maxCostNames:
			t.Errorf("%q: %+v", query, q)
		}
	})
}
