package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"anabranch/cmd/anabranch/client"
)

// seenEndpoints is how a router sees the endpoints of a cluster, as /v1/clusters/NAME/endpoints tells it.
type seenEndpoints struct {
	From            struct{ Router, Region, Node string }
	About, Reason   string
	Ejected         bool
	OwnRequests     int64
	Left            int
	Silent          []struct{ Router, Region, Why string }
	Endpoints       []seenEndpoint
	Cluster, Region string
}

type seenEndpoint struct {
	ID, Class, State, Reason, Freshness    string
	SignalAgeMs, OwnRequests               int64
	Ramp, Waiting, Running, Slots, KVUsage float64
	PoolReady, AdaptersLeft, AdaptersMost  int
	Adapters                               []string
	Models                                 []struct {
		Model, Reason                                                       string
		Used, Learned                                                       bool
		PrefillTokensPerSecond, DecodeTokensPerSecond, TTFTP50Ms, TTFTP95Ms float64
	}
}

// getEndpoints shows the endpoints of a cluster one by one.
func (a *app) getEndpoints(ctx context.Context, c *client.Client, cluster, format string) error {
	if cluster == "" {
		return misused(errors.New("name the cluster: `anabranch get endpoints CLUSTER`"))
	}
	var raw json.RawMessage
	if err := c.JSON(ctx, "/v1/clusters/"+url.PathEscape(cluster)+"/endpoints", url.Values{}, &raw); err != nil {
		return err
	}
	if format != "table" {
		return a.write(format, raw)
	}
	var seen seenEndpoints
	if err := json.Unmarshal(raw, &seen); err != nil {
		return fmt.Errorf("read the endpoints of %s: %w; -o json shows them as they came", cluster, err)
	}
	return a.printEndpoints(seen)
}

func (a *app) printEndpoints(seen seenEndpoints) error {
	if err := a.printf("by      router %s of %s, connected to %s\nsight   %s\n", seen.From.Router, seen.From.Region, seen.From.Node, seen.About); err != nil {
		return err
	}
	for _, s := range seen.Silent {
		if err := a.printf("silent  %s of %s %s\n", s.Router, s.Region, s.Why); err != nil {
			return err
		}
	}
	if seen.Ejected {
		if err := a.printf("ejected %s\n", seen.Reason); err != nil {
			return err
		}
	}
	if len(seen.Endpoints) == 0 {
		return nil
	}
	var rows [][]string
	for _, e := range seen.Endpoints {
		rows = append(rows, e.rows()...)
	}
	if err := a.printf("\n"); err != nil {
		return err
	}
	if err := a.table([]string{"ENDPOINT", "GPU", "STATE", "WAITING", "RUNNING", "KV", "MODEL", "PREFILL/S", "DECODE/S", "TTFT p50", "p95", "ADAPTERS", "SIGNALS", "WHY"}, rows); err != nil {
		return err
	}
	if seen.Left > 0 {
		return a.printf("and %d more\n", seen.Left)
	}
	return nil
}

// rows are an endpoint for people, a row for each model; rates that are not learned yet have a "~".
func (e *seenEndpoint) rows() [][]string {
	waiting, running, kv, signals := "-", "-", "-", "none"
	if e.SignalAgeMs >= 0 {
		kv, signals = fmt.Sprintf("%.0f%%", 100*e.KVUsage), age(e.SignalAgeMs)
		if e.Freshness != "fresh" {
			signals += " (" + e.Freshness + ")"
		}
	}
	if e.SignalAgeMs >= 0 || e.Waiting+e.Running > 0 {
		waiting, running = fmt.Sprintf("%.0f", e.Waiting), fmt.Sprintf("%.0f/%.0f", e.Running, e.Slots)
	}
	state := e.State
	if e.State == "starting" {
		state += fmt.Sprintf(" at %.0f%%", 100*e.Ramp)
	}
	if e.PoolReady >= 0 {
		state += fmt.Sprintf(", %d ready", e.PoolReady)
	}
	head := []string{e.ID, dash(e.Class), state, waiting, running, kv}
	tail := []string{e.loaded(), signals}
	var rows [][]string
	for _, m := range e.Models {
		guess := when(!m.Learned, "~")
		model := m.Model
		if !m.Used {
			model += " (not used)"
		}
		row := append(append([]string{}, head...), model, guess+strconv.FormatFloat(m.PrefillTokensPerSecond, 'f', 0, 64),
			guess+strconv.FormatFloat(m.DecodeTokensPerSecond, 'f', 0, 64), someMs(m.TTFTP50Ms), someMs(m.TTFTP95Ms))
		rows = append(rows, append(append(row, tail...), dash(cmp.Or(e.Reason, m.Reason))))
		head, tail = []string{"", "", "", "", "", ""}, []string{"", ""}
	}
	if len(rows) == 0 {
		rows = append(rows, append(append(append([]string{}, head...), "-", "-", "-", "-", "-"), append(tail, dash(e.Reason))...))
	}
	return rows
}

// loaded is the adapters that an endpoint has, and how many fit.
func (e *seenEndpoint) loaded() string {
	if len(e.Adapters) == 0 && e.AdaptersMost == 0 {
		return "-"
	}
	out := strconv.Itoa(len(e.Adapters) + e.AdaptersLeft)
	if e.AdaptersMost > 0 {
		out += fmt.Sprintf("/%d", e.AdaptersMost)
	}
	if len(e.Adapters) > 0 {
		out += " " + strings.Join(e.Adapters[:min(len(e.Adapters), 3)], ",")
		if len(e.Adapters)+e.AdaptersLeft > 3 {
			out += ",…"
		}
	}
	return out
}

func someMs(ms float64) string {
	if ms <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0fms", ms)
}
