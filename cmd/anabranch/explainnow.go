package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"anabranch/cmd/anabranch/client"
)

// thenAndNow is what would become of a request now, of which people are shown this.
type thenAndNow struct {
	Request, Model, Class, Tenant, Source string
	Then                                  struct {
		Cluster, Region           string
		TableEpoch, TableRevision uint64
		Status                    int
	}
	TableRevision uint64
	Changed       bool
	Summary       string
	Places        []struct {
		Cluster, Region, WhyNot, Health, Freshness string
		Then                                       *struct {
			Tried           bool
			Weight          float64
			Reason, Removed string
		}
		Chance, Weight, Saturation float64
		AgeMs                      int64
	}
}

// explainNow says where a request would go now, in one region or all.
func (a *app) explainNow(ctx context.Context, c *client.Client, id, region, format string) error {
	query := url.Values{}
	if region != "" {
		query.Set("region", region)
	}
	var raw json.RawMessage
	if err := c.JSON(ctx, "/v1/explain/"+url.PathEscape(id)+"/now", query, &raw); err != nil {
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	var now thenAndNow
	if err := json.Unmarshal(raw, &now); err != nil {
		return fmt.Errorf("read answer to GET /v1/explain/%s/now: %w", id, err)
	}
	return a.printNow(now)
}

func (a *app) printNow(now thenAndNow) error {
	then := fmt.Sprintf("nowhere, status %d", now.Then.Status)
	if now.Then.Cluster != "" {
		then = fmt.Sprintf("%s in %s", now.Then.Cluster, now.Then.Region)
	}
	table := "the same table is in force"
	if now.Changed {
		table = fmt.Sprintf("table %d is in force now", now.TableRevision)
	}
	if err := a.printf("then      %s, by table %d/%d; %s\nsuch      %s of class %s from %s, of tenant %s\n",
		then, now.Then.TableEpoch, now.Then.TableRevision, table, dash(now.Model), dash(now.Class), now.Source, dash(now.Tenant)); err != nil {
		return err
	}
	if now.Summary != "" {
		if err := a.printf("now       %s\n", now.Summary); err != nil {
			return err
		}
	}
	if len(now.Places) == 0 {
		return a.printf("\nno cluster there serves it, and none was thought of\n")
	}
	rows := make([][]string, 0, len(now.Places))
	for _, p := range now.Places {
		was := "not thought of"
		switch t := p.Then; {
		case t == nil:
		case t.Removed != "":
			was = "removed: " + t.Removed
		default:
			was = fmt.Sprintf("%.3g%s", t.Weight, when(t.Tried, ", tried"))
		}
		load := dash(when(p.Saturation > 0, fmt.Sprintf("%.0f%%", 100*p.Saturation)))
		rows = append(rows, []string{p.Cluster, p.Region, was, fmt.Sprintf("%.0f%%", 100*p.Chance), p.Health, load, age(p.AgeMs), dash(p.WhyNot)})
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	return a.table([]string{"CLUSTER", "REGION", "THEN", "NOW", "HEALTH", "LOAD", "SIGNALS", "WHY NOT"}, rows)
}
