package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"pgregory.net/rapid"

	"anabranch/controlplane/policy"
)

// namesOf reads a list to its end, in pages of a size.
func (d *double) namesOf(path string, size int) []string {
	d.t.Helper()
	names := []string{}
	cursor := ""
	for {
		join := "?"
		if strings.Contains(path, "?") {
			join = "&"
		}
		var page List[struct {
			Metadata struct{ Name string }
			ID       string
		}]
		d.do("viewer", "GET", fmt.Sprintf("%s%slimit=%d&cursor=%s", path, join, size, cursor), "").want(200, "").into(&page)
		for _, item := range page.Items {
			names = append(names, item.Metadata.Name+item.ID)
		}
		if cursor = page.NextCursor; cursor == "" {
			return names
		}
		if len(page.Items) != size {
			d.t.Fatalf("a page of %d with %d items has a next one", size, len(page.Items))
		}
	}
}

func fleetOfFour(t *testing.T) *double {
	t.Helper()
	d := newDouble(t)
	d.seed("Region us {}", "Region eu {}", "Model m {}", "Model n {}")
	for i, c := range []struct{ name, labels, spec string }{
		{"us-1", "team: a, env: prod", "region: us, models: [m]"},
		{"eu-1", "team: b", "region: eu, models: [m, n]"},
		{"us-2", "team: a", "region: us, models: [n], drained: true"},
		{"eu-2", "", "region: eu, models: [n], gpus: [{class: h100, count: 8}]"},
	} {
		text := fmt.Sprintf("{apiVersion: anabranch/v1, kind: Cluster, metadata: {name: %s, labels: {%s}}, spec: {%s, endpoints: [{id: e, class: a, url: 'http://10.0.0.%d'}]}}", c.name, c.labels, c.spec, i+1)
		d.do("operator", "POST", "/v1/clusters", text, yaml).want(201, "")
		d.advance(time.Second)
	}
	return d
}

func TestListsAreFilteredAndSorted(t *testing.T) {
	d := fleetOfFour(t)
	d.do("operator", "PATCH", "/v1/clusters/us-1", "{metadata: {labels: {env: test}}}", "If-Match: *").want(200, "") // the latest
	for query, want := range map[string]string{
		"":                                    "eu-1 eu-2 us-1 us-2",
		"name=eu-*":                           "eu-1 eu-2",
		"name=eu-1":                           "eu-1",
		"name=eu":                             "",
		"name=*":                              "eu-1 eu-2 us-1 us-2",
		"label=team=a":                        "us-1 us-2",
		"label=team":                          "eu-1 us-1 us-2",
		"label=team=a&label=env=test":         "us-1",
		"label=team=":                         "",
		"field=spec.region=eu":                "eu-1 eu-2",
		"field=spec.models=n":                 "eu-1 eu-2 us-2",
		"field=spec.drained=true":             "us-2",
		"field=spec.gpus.count=8":             "eu-2",
		"field=spec.gpus.class=h*":            "eu-2",
		"field=spec.endpoints.url=http*":      "eu-1 eu-2 us-1 us-2",
		"field=spec.region=us&name=*-2":       "",
		"sort=-name":                          "us-2 us-1 eu-2 eu-1",
		"sort=createdAt":                      "us-1 eu-1 us-2 eu-2",
		"sort=-updatedAt":                     "us-1 eu-2 us-2 eu-1",
		"sort=-revision&field=spec.region=us": "us-1 us-2",
	} {
		for size := 1; size <= 5; size++ {
			path := "/v1/clusters?" + query
			if got := strings.Join(d.namesOf(path, size), " "); got != want {
				t.Errorf("%s in pages of %d: %q, want %q", path, size, got, want)
			}
		}
	}
}

func TestFiltersThatMeanNothingAreRefused(t *testing.T) {
	d := fleetOfFour(t)
	for query, want := range map[string]string{
		"colour=red":                       "there are after, consistency, cursor",
		"labels=team=a":                    "There is no parameter",
		"limit=1&limit=2":                  "limit is given 2 times",
		"label==a":                         "write key=value",
		"field=spec.region":                "write path=value",
		"field=spec.region=":               "write path=value",
		"field=region=eu":                  "does not begin with spec.",
		"field=spec.planet=x":              "spec has ",
		"field=spec.gpus=x":                "holds fields itself",
		"field=spec.region.x=x":            "nothing below spec.region",
		"field=spec.modelNames=x":          "add the name of an entry",
		"sort=colour":                      "use createdAt, name, revision, updatedAt",
		"sort=--name":                      "sort is",
		"watch=true&label=team=a":          "for lists",
		"watch=true&sort=name":             "for lists",
		"name=" + strings.Repeat("a", 300): "limit is 256",
		"%zz=1":                            "query can't be read",
		strings.Repeat("label=a&", 17):     "more than 16 terms",
	} {
		p := d.do("viewer", "GET", "/v1/clusters?"+query, "").want(400, "invalid_request").problem()
		if !strings.Contains(p.Detail, want) {
			t.Errorf("%s: %q, want %q", query, p.Detail, want)
		}
	}
	d.do("viewer", "GET", "/v1/status?verbose=1", "").want(400, "invalid_request")
	d.do("operator", "DELETE", "/v1/clusters/us-1?limit=1", "", "If-Match: *").want(400, "invalid_request")
	d.do("", "GET", "/healthz?probe=1", "").want(200, "")
	d.do("", "GET", "/?utm_source=mail", "").want(200, "")
}

func TestACursorGoesOnWithItsOwnListOnly(t *testing.T) {
	d := fleetOfFour(t)
	var page List[policy.Resource]
	d.do("viewer", "GET", "/v1/clusters?limit=1&sort=-createdAt", "").want(200, "").into(&page)
	for _, query := range []string{"", "&sort=createdAt", "&sort=-createdAt&name=us-*"} {
		d.do("viewer", "GET", "/v1/clusters?limit=1"+query+"&cursor="+page.NextCursor, "").want(400, "invalid_request")
	}
	d.do("viewer", "GET", "/v1/clusters?limit=3&sort=-createdAt&cursor="+page.NextCursor, "").want(200, "")
}

func TestRoutersAreFiltered(t *testing.T) {
	d := newDouble(t)
	d.join("r-1", "us", 5, nil)
	d.join("r-2", "eu", 3, nil)
	d.join("s-1", "us", 4, nil)
	for query, want := range map[string]string{
		"":                      "r-1 r-2 s-1",
		"?name=r-*":             "r-1 r-2",
		"?region=us":            "r-1 s-1",
		"?sort=appliedRevision": "r-2 s-1 r-1",
		"?sort=-name&region=us": "s-1 r-1",
		"?connected=false":      "",
		"?behind=false":         "r-1 r-2 s-1",
	} {
		for size := 1; size <= 3; size++ {
			if got := strings.Join(d.namesOf("/v1/routers"+query, size), " "); got != want {
				t.Errorf("%s in pages of %d: %q, want %q", query, size, got, want)
			}
		}
	}
	for _, query := range []string{"connected=maybe", "behind=1", "region=Not+A+Name", "sort=ageMs", "name=" + strings.Repeat("a", 300)} {
		d.do("viewer", "GET", "/v1/routers?"+query, "").want(400, "invalid_request")
	}
}

// What stays as it is stands on exactly one page, whatever comes, goes and changes between the pages.
func TestPagesMissNothingThatStaysInAnyOrder(t *testing.T) {
	type item struct {
		name string
		key  int64
	}
	rapid.Check(t, func(t *rapid.T) {
		o := order[item]{name: func(i item) string { return i.name }, down: rapid.Bool().Draw(t, "down")}
		if rapid.Bool().Draw(t, "by key") {
			o.key = func(i item) int64 { return i.key }
		}
		draw := func(prefix string) []item {
			return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) item {
				return item{prefix + rapid.StringMatching(`[a-f]{1,3}`).Draw(t, "name"), rapid.Int64Range(0, 5).Draw(t, "key")}
			}), 0, 12, func(i item) string { return i.name }).Draw(t, prefix)
		}
		staying := draw("a")
		seen := map[string]int{}
		var from cursor
		for {
			all := append(slices.Clone(staying), draw("b")...)
			slices.SortFunc(all, func(a, b item) int { return strings.Compare(a.name, b.name) })
			items, next := o.page(all, from, rapid.IntRange(1, 4).Draw(t, "limit"), func(item) bool { return true })
			for _, i := range items {
				seen[i.name]++
			}
			if next == "" {
				break
			}
			c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/?cursor="+next, nil), nil)
			var err error
			if from, err = listed(c); err != nil {
				t.Fatal(err)
			}
		}
		for _, i := range staying {
			if seen[i.name] != 1 {
				t.Fatalf("%v stood on %d pages", i, seen[i.name])
			}
		}
	})
}
