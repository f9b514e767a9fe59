package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/failover"
)

// health is what the status of a cluster or region tells of it. Of an older node only Health is there.
type health struct {
	Health any           `json:"health"`
	Models []modelHealth `json:"models"` // of a cluster
	// Of a region.
	Clusters []struct {
		Name   string        `json:"name"`
		Health string        `json:"health"`
		Models []modelHealth `json:"models"`
	} `json:"clusters"`
}

type modelHealth struct {
	Model  string `json:"model"`
	Health string `json:"health"`
}

// mostDiffering is how many places are named that fare otherwise.
const mostDiffering = 3

// healthOf sums up the health in a status: the worst of it, and where it is, if that is not everywhere; empty: it
// tells of none. "EVACUATED (m, n)" is a cluster of which two models are evacuated, "SUSPECT (us-a, us-b/n)" a region
// with a cluster, and with a model of another one, that may be down.
func healthOf(status json.RawMessage) string {
	var s health
	if err := json.Unmarshal(status, &s); err != nil {
		return ""
	}
	whole, _ := s.Health.(string)
	if whole == "" {
		return ""
	}
	var places []placed
	for _, m := range s.Models {
		places = append(places, placed{m.Model, m.Health})
	}
	for _, c := range s.Clusters {
		places = append(places, placed{c.Name, c.Health})
		for _, m := range c.Models {
			places = append(places, placed{c.Name + "/" + m.Model, m.Health})
		}
	}
	return summed(whole, places)
}

// placed is the health of one place.
type placed struct{ name, state string }

func summed(whole string, places []placed) string {
	worst := whole
	for _, p := range places {
		if failover.Severity(failover.State(p.state)) > failover.Severity(failover.State(worst)) {
			worst = p.state
		}
	}
	var names []string
	for _, p := range places {
		if p.state == worst {
			names = append(names, p.name)
		}
	}
	if len(names) == 0 || len(names) == len(places) {
		return worst
	}
	if more := len(names) - mostDiffering; more > 0 {
		names = append(names[:mostDiffering], fmt.Sprintf("%d more", more))
	}
	return worst + " (" + strings.Join(names, ", ") + ")"
}

// unwell is a place that the control plane's status names since it is not HEALTHY.
type unwell struct {
	Cluster string    `json:"cluster"`
	Model   string    `json:"model"`
	Health  string    `json:"health"`
	Since   time.Time `json:"since"`
	Reason  string    `json:"reason"`
}

// mostUnwell is how many of them are printed.
const mostUnwell = 10

// linesOf tells each of them in a line.
func linesOf(all []unwell) string {
	var b strings.Builder
	for i, u := range all {
		if i == mostUnwell {
			fmt.Fprintf(&b, "unwell    and %d more: anabranch get clusters\n", len(all)-i)
			break
		}
		name := u.Cluster
		if u.Model != "" {
			name += "/" + u.Model
		}
		fmt.Fprintf(&b, "unwell    %s is %s since %s: %s\n", name, u.Health, stamp(u.Since), dash(u.Reason))
	}
	return b.String()
}

// maxDescribedModels bounds the models whose transitions are asked for.
const maxDescribedModels = 20

// printTransitions prints the last changes of a cluster's health, and of those of its models that changed by
// themselves, newest first.
func (a *app) printTransitions(ctx context.Context, c *client.Client, cluster string, status json.RawMessage) error {
	var s health
	if err := json.Unmarshal(status, &s); err != nil {
		return nil //nolint:nilerr // an older node tells of no models, and its transitions are in the audit trail
	}
	names := []string{cluster}
	for _, m := range s.Models[:min(len(s.Models), maxDescribedModels)] {
		names = append(names, cluster+"/"+m.Model)
	}
	type entry struct {
		at    time.Time
		index uint64
		row   []string
	}
	var all []entry
	for _, name := range names {
		var trail struct {
			Items []struct {
				At     time.Time   `json:"at"`
				Reason string      `json:"reason"`
				Index  json.Number `json:"index"`
			} `json:"items"`
		}
		query := url.Values{"kind": {"ClusterHealth"}, "name": {name}, "limit": {strconv.Itoa(describedEvents)}}
		if err := c.JSON(ctx, "/v1/audit", query, &trail); err != nil {
			return err
		}
		for _, e := range trail.Items {
			index, err := strconv.ParseUint(e.Index.String(), 10, 64)
			if err != nil {
				index = 0 // of a version that counts otherwise: sorted by time alone
			}
			all = append(all, entry{e.At, index, []string{"  " + stamp(e.At), name, e.Reason}})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y entry) int {
		if x.index != y.index {
			return int(int64(y.index) - int64(x.index))
		}
		return y.at.Compare(x.at)
	})
	var rows [][]string
	for _, e := range all[:min(len(all), describedEvents)] {
		rows = append(rows, e.row)
	}
	if err := a.printf("\nhealth:\n"); err != nil {
		return err
	}
	return a.table([]string{"  AT", "PLACE", "TRANSITION"}, rows)
}
