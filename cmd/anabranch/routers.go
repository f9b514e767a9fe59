package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
)

// router is one router as /v1/routers tells it.
type router struct {
	ID              string `json:"id"`
	Region          string `json:"region"`
	Version         string `json:"version"`
	AppliedEpoch    uint64 `json:"appliedEpoch"`
	AppliedRevision uint64 `json:"appliedRevision"`
	AgeMs           int64  `json:"ageMs"`
	Node            string `json:"node"`
	Connected       bool   `json:"connected"`
	Behind          bool   `json:"behind"`
	// QuotaStoreOK is nil where an older control plane does not tell.
	QuotaStoreOK   *bool `json:"quotaStoreOk"`
	DegradedLimits int   `json:"degradedLimits"`
	Answer         *struct {
		Revision uint64 `json:"revision"`
		Taken    bool   `json:"taken"`
		Code     string `json:"code"`
		Field    string `json:"field"`
	} `json:"answer"`
}

// getRouters shows all routers, or one by its id.
func (a *app) getRouters(ctx context.Context, c *client.Client, id, format string) error {
	list, err := everyPage(ctx, c, "/v1/routers", url.Values{})
	if err != nil {
		return err
	}
	var rows [][]string
	for _, raw := range list.Items {
		var r router
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read a router: %w; -o json shows it as it came", err)
		}
		switch {
		case id == "":
		case id != r.ID:
			continue
		case format != "table":
			return a.write(format, raw)
		}
		rows = append(rows, r.row())
	}
	if id != "" && rows == nil {
		return fmt.Errorf("router %q is not known to the control plane; `anabranch get routers` lists those that are", id)
	}
	if format != "table" {
		return a.write(format, list)
	}
	return a.table([]string{"NAME", "REGION", "NODE", "CONNECTED", "TABLE", "ANSWER", "REPORT", "QUOTAS", "VERSION"}, rows)
}

// items is a list as it came.
type items struct {
	Items []json.RawMessage `json:"items"`
}

// everyPage reads a list to its end.
func everyPage(ctx context.Context, c *client.Client, path string, query url.Values) (items, error) {
	list, err := client.All[json.RawMessage](ctx, c, path, query)
	return items{list}, err
}

// row is a router for people: the table that it holds, what it said of the last, and how old its last
// report is.
func (r *router) row() []string {
	table, answer, report := "-", "-", "never"
	if r.AppliedRevision > 0 {
		table = strconv.FormatUint(r.AppliedRevision, 10)
		if r.Behind {
			table += " (behind)"
		}
	}
	if r.Answer != nil {
		answer = "took "
		if !r.Answer.Taken {
			answer = r.Answer.Code + " "
			if r.Answer.Field != "" {
				answer = r.Answer.Code + " at " + r.Answer.Field + " "
			}
		}
		answer += strconv.FormatUint(r.Answer.Revision, 10)
	}
	if r.AgeMs >= 0 {
		report = (time.Duration(r.AgeMs) * time.Millisecond).Round(100 * time.Millisecond).String()
	}
	return []string{r.ID, r.Region, dash(r.Node), yes(r.Connected), table, answer, report, r.quotas(), dash(r.Version)}
}

// quotas says whether it reaches its quota stores, or keeps limits by itself.
func (r *router) quotas() string {
	switch {
	case r.AgeMs < 0 || r.QuotaStoreOK == nil:
		return "-"
	case r.DegradedLimits > 0:
		return fmt.Sprintf("%d degraded", r.DegradedLimits)
	case !*r.QuotaStoreOK:
		return "store down"
	}
	return "ok"
}

// following sums routers up for a status: how many there are, and how many of them are behind, have
// refused the last table, reach no quota store, or are not connected.
func following(routers []router) string {
	out := []string{strconv.Itoa(len(routers))}
	behind, refused, away, alone := 0, 0, 0, 0
	for _, r := range routers {
		switch {
		case !r.Connected:
			away++
		case r.Behind:
			behind++
		}
		if r.Answer != nil && !r.Answer.Taken {
			refused++
		}
		if r.Connected && r.AgeMs >= 0 && r.QuotaStoreOK != nil && !*r.QuotaStoreOK {
			alone++
		}
	}
	for _, of := range []struct {
		n    int
		what string
	}{{behind, "behind"}, {refused, "refused the last table"}, {alone, "without a quota store"}, {away, "not connected"}} {
		if of.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(out, ", ")
}
