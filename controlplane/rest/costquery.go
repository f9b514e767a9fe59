package rest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/access"
	"anabranch/controlplane/account"
	"anabranch/costmodel"
)

// Bounds of a question about costs.
const (
	// DefaultCostSince is how far back it goes if nothing is said.
	DefaultCostSince = 24 * time.Hour
	// maxCostNames bounds the names of one filter.
	maxCostNames = 100
	// maxCostRows bounds an answer: a row takes about 600 bytes.
	maxCostRows = 50_000
	// maxReckonings is how many such questions a node answers at a time.
	maxReckonings = 2
)

// costQuery is a question about costs.
type costQuery struct {
	account.Query
	by         []string
	step, idle string
	csv        bool
	limit      int // of keys; 0: all
	// figure to sort by, the largest first if down; nil: by names.
	figure func(costmodel.Sum) float64
	down   bool
}

// costFields are the fields of a key by their names in questions, in the order of columns.
var costFields = []struct {
	name string
	of   costmodel.Dimensions
}{
	{"tenant", costmodel.ByTenant},
	{"model", costmodel.ByModel},
	{"class", costmodel.ByClass},
	{"cluster", costmodel.ByCluster},
	{"region", costmodel.ByRegion},
	{"source", costmodel.BySource},
}

// costFigures are what rows may be sorted by. Rows without one come as if it were 0.
var costFigures = map[string]func(costmodel.Sum) float64{
	"paid":    func(s costmodel.Sum) float64 { return float64(s.Paid()) },
	"work":    func(s costmodel.Sum) float64 { return float64(s.Cost) },
	"idle":    func(s costmodel.Sum) float64 { return float64(s.Idle) },
	"egress":  func(s costmodel.Sum) float64 { return float64(s.Egress) },
	"carbon":  func(s costmodel.Sum) float64 { return float64(s.Carbon) },
	"tokens":  func(s costmodel.Sum) float64 { return float64(s.Input) + float64(s.Output) },
	"answers": func(s costmodel.Sum) float64 { return float64(s.Succeeded) },
	"perMillionTokens": func(s costmodel.Sum) float64 {
		cost, _ := s.PerMillionTokens()
		return float64(cost)
	},
	"perAnswer": func(s costmodel.Sum) float64 {
		cost, _ := s.PerSuccess()
		return float64(cost)
	},
}

// costQueryOf reads a question. A file is by all fields and by day unless it is to be otherwise.
func costQueryOf(c echo.Context, now time.Time) (costQuery, error) {
	q := costQuery{}
	var err error
	if q.csv, err = wantsCSV(c); err != nil {
		return q, err
	}
	for _, read := range []func(echo.Context) error{
		func(c echo.Context) error { return q.readTime(c, now) }, q.readShape, q.readOrder, q.readNames,
	} {
		if err := read(c); err != nil {
			return q, err
		}
	}
	if q.csv && q.Step == account.Whole {
		return q, newProblem(codeInvalidRequest, "step is none; a file has charge periods within a month: use minute, hour or day.")
	}
	return q, nil
}

// wantsCSV says whether the answer is to be a file: format=csv, or else by what is accepted.
func wantsCSV(c echo.Context) (bool, error) {
	switch format := c.QueryParam("format"); format {
	case "csv":
		return true, nil
	case "json":
		return false, nil
	case "":
		accepted, _, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAccept), ",")
		accepted, _, _ = strings.Cut(accepted, ";")
		return strings.TrimSpace(accepted) == mediaCSV, nil
	default:
		return false, newProblem(codeInvalidRequest, fmt.Sprintf("format is %.40q; use json or csv.", format))
	}
}

// readTime reads since, or from and until.
func (q *costQuery) readTime(c echo.Context, now time.Time) error {
	return q.readTimeOr(c, now, DefaultCostSince)
}

// readTimeOr is readTime that goes back so far if nothing is said.
func (q *costQuery) readTimeOr(c echo.Context, now time.Time, span time.Duration) error {
	since, from := c.QueryParam("since"), c.QueryParam("from")
	if since != "" && from != "" {
		return newProblem(codeInvalidRequest, "since and from say the same: give one of them.")
	}
	q.Until = now
	if text := c.QueryParam("until"); text != "" {
		at, err := momentOf(text)
		if err != nil {
			return newProblem(codeInvalidRequest, fmt.Sprintf("until %s.", err))
		}
		q.Until = at
	}
	if since != "" {
		var err error
		if span, err = spanOf(since); err != nil {
			return newProblem(codeInvalidRequest, fmt.Sprintf("since %s.", err))
		}
	}
	q.From = q.Until.Add(-span)
	if from != "" {
		at, err := momentOf(from)
		if err != nil {
			return newProblem(codeInvalidRequest, fmt.Sprintf("from %s.", err))
		}
		q.From = at
	}
	if !q.From.Before(q.Until) {
		return newProblem(codeInvalidRequest, "from is not before until.")
	}
	return nil
}

// momentOf reads a time, or a date, which is its beginning in UTC.
func momentOf(text string) (time.Time, error) {
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 1970 || at.Year() > 2200 {
		return at, fmt.Errorf("is %.40q; write a date, such as 2026-11-30, or a time, such as 2026-11-30T12:00:00Z", text)
	}
	return at, nil
}

var days = regexp.MustCompile(`^([0-9]{1,3})d$`)

// spanOf reads how far back: a duration, also in days.
func spanOf(text string) (time.Duration, error) {
	span, err := time.ParseDuration(text)
	if m := days.FindStringSubmatch(text); m != nil {
		n, _ := strconv.Atoi(m[1]) // digits
		span, err = time.Duration(n)*24*time.Hour, nil
	}
	if err != nil || span < time.Minute {
		return 0, fmt.Errorf("is %.40q; write a minute or more, such as 90m, 24h or 31d", text)
	}
	return span, nil
}

// readShape reads by, step and idle.
func (q *costQuery) readShape(c echo.Context) error {
	q.by, q.step, q.idle = []string{"tenant"}, "none", "apart"
	if q.csv {
		q.by, q.step = []string{"tenant", "model", "class", "cluster", "region"}, "day"
	}
	if text := c.QueryParam("by"); text != "" {
		q.by = strings.Split(text, ",")
	}
	for i, name := range q.by {
		at := slices.IndexFunc(costFields, func(f struct {
			name string
			of   costmodel.Dimensions
		},
		) bool {
			return f.name == name
		})
		if at < 0 {
			return newProblem(codeInvalidRequest, fmt.Sprintf("by has %.40q; use %s, with commas between.", name, strings.Join(costFieldNames(), ", ")))
		}
		if slices.Contains(q.by[:i], name) {
			return newProblem(codeInvalidRequest, fmt.Sprintf("by has %s twice.", name))
		}
		q.By |= costFields[at].of
	}
	if text := c.QueryParam("step"); text != "" {
		q.step = text
	}
	steps := map[string]account.Step{"none": account.Whole, "minute": account.ByMinute, "hour": account.ByHour, "day": account.ByDay}
	var known bool
	if q.Step, known = steps[q.step]; !known {
		return newProblem(codeInvalidRequest, fmt.Sprintf("step is %.40q; use none, minute, hour or day.", q.step))
	}
	if text := c.QueryParam("idle"); text != "" {
		q.idle = text
	}
	if q.idle != "apart" && q.idle != "spread" {
		return newProblem(codeInvalidRequest, fmt.Sprintf("idle is %.40q; use apart or spread.", q.idle))
	}
	q.SpreadIdle = q.idle == "spread"
	return nil
}

func costFieldNames() (all []string) {
	for _, f := range costFields {
		all = append(all, f.name)
	}
	return all
}

// readOrder reads sort and limit.
func (q *costQuery) readOrder(c echo.Context) error {
	text := c.QueryParam("sort")
	if text == "" {
		text = "-paid"
	}
	by, down := strings.CutPrefix(text, "-")
	q.down = down
	var known bool
	if q.figure, known = costFigures[by]; !known && by != "name" {
		all := append(slices.Collect(maps.Keys(costFigures)), "name")
		slices.Sort(all)
		return newProblem(codeInvalidRequest, fmt.Sprintf("sort is %.40q; use %s, with a - before it for the largest first.", text, strings.Join(all, ", ")))
	}
	if q.csv && c.QueryParam("limit") == "" {
		return nil
	}
	var err error
	q.limit, err = limitOf(c)
	return err
}

// readNames reads whose and where: each may be given several times.
func (q *costQuery) readNames(c echo.Context) error {
	for _, of := range []struct {
		name  string
		check func(string) error
		add   func(string)
	}{
		{"tenant", fleet.CheckName, func(s string) { q.Tenants = append(q.Tenants, fleet.TenantID(s)) }},
		{"model", fleet.CheckModel, func(s string) { q.Models = append(q.Models, fleet.ModelID(s)) }},
		{"class", fleet.CheckName, func(s string) { q.Classes = append(q.Classes, fleet.ClassID(s)) }},
		{"cluster", fleet.CheckName, func(s string) { q.Clusters = append(q.Clusters, fleet.ClusterID(s)) }},
		{"region", fleet.CheckName, func(s string) { q.Regions = append(q.Regions, fleet.RegionID(s)) }},
		{"source", fleet.CheckName, func(s string) { q.Sources = append(q.Sources, fleet.RegionID(s)) }},
	} {
		given := c.QueryParams()[of.name]
		if len(given) > maxCostNames {
			return newProblem(codeInvalidRequest, fmt.Sprintf("There are more than %d names of %s.", maxCostNames, of.name))
		}
		for _, name := range given {
			if err := of.check(name); err != nil {
				return newProblem(codeInvalidRequest, fmt.Sprintf("%s %s.", of.name, err))
			}
			of.add(name)
		}
	}
	return nil
}

// narrow keeps the question within a scope. Nobody: it asks for tenants alone that the scope does not show, as
// if they were not there.
func (q *costQuery) narrow(scope access.Scope) (nobody bool) {
	if len(scope.Tenants) == 0 {
		return false
	}
	asked := len(q.Tenants) > 0
	q.Tenants = slices.DeleteFunc(q.Tenants, func(t fleet.TenantID) bool { return !scope.Seen(string(t)) })
	nobody = asked && len(q.Tenants) == 0
	if len(q.Tenants) == 0 {
		for _, t := range scope.Tenants {
			q.Tenants = append(q.Tenants, fleet.TenantID(t))
		}
	}
	return nobody
}
