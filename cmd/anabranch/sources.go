package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"anabranch/cmd/anabranch/client"
)

// polled is one place that a node polls, as /v1/sources tells it.
type polled struct {
	Cluster    string  `json:"cluster"`
	Endpoint   string  `json:"endpoint"`
	Node       string  `json:"node"`
	Kind       string  `json:"kind"`
	Polled     bool    `json:"polled"`
	Why        string  `json:"why"`
	IntervalMs int64   `json:"intervalMs"`
	AgeMs      int64   `json:"ageMs"`
	Freshness  string  `json:"freshness"`
	TookMs     float64 `json:"tookMs"`
	Failures   int     `json:"failures"`
	Error      string  `json:"error"`
}

// getSources shows what nodes poll, perhaps of one cluster only.
func (a *app) getSources(ctx context.Context, c *client.Client, cluster, format string) error {
	query := url.Values{}
	if cluster != "" {
		query.Set("cluster", cluster)
	}
	list, err := everyPage(ctx, c, "/v1/sources", query)
	if err != nil {
		return err
	}
	if cluster != "" && len(list.Items) == 0 {
		return fmt.Errorf("nothing of a cluster %q is polled by the control plane; `anabranch get sources` lists what is", cluster)
	}
	if format != "table" {
		return a.write(format, list)
	}
	var rows [][]string
	for _, raw := range list.Items {
		var s polled
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("read a source: %w; -o json shows it as it came", err)
		}
		rows = append(rows, s.row())
	}
	return a.table([]string{"CLUSTER", "ENDPOINT", "NODE", "READS", "POLLED", "EVERY", "AGE", "TOOK", "FAILURES", "BECAUSE"}, rows)
}

// row is a source for people. The last column says what is wrong, or else why it is polled or not.
func (s *polled) row() []string {
	age, took, because := "never", "-", s.Why
	if s.AgeMs >= 0 {
		age = (time.Duration(s.AgeMs) * time.Millisecond).Round(100 * time.Millisecond).String()
		took = fmt.Sprintf("%.1fms", s.TookMs)
		if s.Polled && s.Freshness != "fresh" {
			age += " (" + s.Freshness + ")"
		}
	}
	if s.Error != "" {
		because = s.Error
	}
	return []string{
		s.Cluster, dash(s.Endpoint), s.Node, s.Kind, yes(s.Polled),
		(time.Duration(s.IntervalMs) * time.Millisecond).String(), age, took, strconv.Itoa(s.Failures), dash(because),
	}
}

// signalsOf says whose word the signals of a cluster's status are and how old they are; empty: the
// status does not tell.
func signalsOf(status json.RawMessage) string {
	var s struct {
		Signals struct {
			From      *string `json:"from"`
			AgeMs     int64   `json:"ageMs"`
			Freshness string  `json:"freshness"`
		} `json:"signals"`
	}
	if err := json.Unmarshal(status, &s); err != nil || s.Signals.From == nil {
		return ""
	}
	if *s.Signals.From == "" {
		return "none"
	}
	out := fmt.Sprintf("%s, %s", *s.Signals.From, (time.Duration(s.Signals.AgeMs) * time.Millisecond).Round(100*time.Millisecond))
	if s.Signals.Freshness != "fresh" {
		out += " (" + s.Signals.Freshness + ")"
	}
	return out
}
