package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// faults asks a cluster's model servers which they have, by CLUSTER/ENDPOINT.
func (s *supervisor) faults(ctx context.Context, cluster Unit) (map[string]string, error) {
	body, err := s.tell(ctx, http.MethodGet, cluster.Name, "/status?recent=0", nil)
	if err != nil {
		return nil, err
	}
	var status struct {
		Endpoints []struct {
			ID     string `json:"id"`
			Faults []struct {
				Fault string `json:"fault"`
			} `json:"faults"`
		} `json:"endpoints"`
	}
	if err := json.Unmarshal(body, &status); err != nil {
		return nil, fmt.Errorf("faults of %s: %w", cluster.Name, err)
	}
	found := map[string]string{}
	for _, e := range status.Endpoints {
		for _, f := range e.Faults {
			at := cluster.Name + "/" + e.ID
			found[at] = strings.TrimPrefix(found[at]+","+f.Fault, ",")
		}
	}
	return found, nil
}

func (s *supervisor) setFault(ctx context.Context, p plan, o Order) ([]string, error) {
	body, err := json.Marshal(struct {
		Endpoint string  `json:"endpoint"` // empty: all
		Fault    string  `json:"fault"`
		Factor   float64 `json:"factor,omitempty"`
		Ratio    float64 `json:"ratio,omitempty"`
	}{p.endpoint, o.Fault, o.Factor, o.Ratio})
	if err != nil {
		return nil, err
	}
	if _, err := s.tell(ctx, http.MethodPost, p.cluster, "/faults", body); err != nil {
		return nil, err
	}
	done := fmt.Sprintf("set fault %s on %s", o.Fault, p.place())
	s.say("- %s", done)
	return []string{done}, nil
}

func (s *supervisor) clearFaults(ctx context.Context, cluster, endpoint string) ([]string, error) {
	query := url.Values{"endpoint": {endpoint}}
	if _, err := s.tell(ctx, http.MethodDelete, cluster, "/faults?"+query.Encode(), nil); err != nil {
		return nil, err
	}
	done := "took all faults from " + plan{cluster: cluster, endpoint: endpoint}.place()
	s.say("+ %s", done)
	return []string{done}, nil
}

// place names the endpoint, or the cluster for all of its endpoints.
func (p plan) place() string { return strings.TrimSuffix(p.cluster+"/"+p.endpoint, "/") }

// tell calls the admin page of a cluster.
func (s *supervisor) tell(ctx context.Context, method, cluster, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	admin := ""
	for _, c := range s.record.Clusters {
		if c.ID == cluster {
			admin = c.Admin
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, admin+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := h.Do(req)
	if err != nil {
		return nil, fmt.Errorf("faults of %s: %w; if it is down, start it with `anabranch dev heal cluster %s`", cluster, err, cluster)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("faults of %s: %w", cluster, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("faults of %s: %s: %s", cluster, resp.Status, strings.TrimSpace(string(answer)))
	}
	return answer, nil
}
