package dataplane

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"anabranch/api/fleet"
	"anabranch/dataplane/table"
)

// pruneEvery is how often series are looked through for names that the table no longer has. A
// request that began under an earlier table may count under its names when that is gone.
const pruneEvery = time.Minute

// series registers metrics, and takes out the series whose labels have a name that has left the
// table: operators make and delete clusters, models, tenants and policies for as long as a router
// runs, and what each has left behind would stay for as long. It is known by its label what a value
// names.
type series struct {
	to prometheus.Registerer

	mu   sync.Mutex // guards what follows
	all  []prometheus.Collector
	vecs []vec
	held *table.Table // nil: none yet
}

// vec is a metric with labels that are counted under.
type vec interface {
	prometheus.Collector
	Delete(labels prometheus.Labels) bool
}

// Register implements [prometheus.Registerer].
func (s *series) Register(c prometheus.Collector) error {
	if err := s.to.Register(c); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, c)
	if v, ok := c.(vec); ok {
		s.vecs = append(s.vecs, v)
	}
	return nil
}

// MustRegister implements [prometheus.Registerer].
func (s *series) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := s.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements [prometheus.Registerer].
func (s *series) Unregister(c prometheus.Collector) bool { return s.to.Unregister(c) }

// applied takes in a new table.
func (s *series) applied(t *table.Table) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil && lost(s.held, t) {
		s.prune(t)
	}
	s.held = t
}

// again looks for what has left the table in force.
func (s *series) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != nil {
		s.prune(s.held)
	}
}

// prune takes out the series with names that are not in the table. The lock is held.
func (s *series) prune(t *table.Table) {
	for _, v := range s.vecs {
		for _, labels := range labelsOf(v) {
			if !present(t, labels) {
				v.Delete(labels)
			}
		}
	}
}

// labelsOf lists the labels of each series that a metric has.
func labelsOf(v vec) []prometheus.Labels {
	found := make(chan prometheus.Metric)
	go func() {
		defer close(found)
		v.Collect(found)
	}()
	var all []prometheus.Labels
	for m := range found {
		var out dto.Metric
		if m.Write(&out) != nil {
			continue // can't be: it is written at each scrape
		}
		labels := make(prometheus.Labels, len(out.GetLabel()))
		for _, l := range out.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		all = append(all, labels)
	}
	return all
}

// present says whether all that the labels of a series name is in the table.
func present(t *table.Table, labels prometheus.Labels) bool {
	for label, value := range labels {
		if value == "" || value == none {
			continue
		}
		ok := true
		switch label {
		case "cluster":
			ok = t.Clusters[fleet.ClusterID(value)] != nil
		case "model", "gen_ai_request_model":
			m, _, found := t.Model(value)
			ok = found && string(m.ID) == value
		case "tenant":
			_, ok = t.Tenant(fleet.TenantID(value))
		case "policy":
			ok = t.RuleOf(value) != nil
		case "arm":
			rule := t.RuleOf(labels["policy"])
			ok = rule != nil && rule.Arm(value) != nil
		}
		if !ok {
			return false
		}
	}
	return true
}

// lost says whether a table lacks a name that labels may have from the one before.
func lost(before, t *table.Table) bool {
	for id := range before.Clusters {
		if t.Clusters[id] == nil {
			return true
		}
	}
	for _, m := range before.Models() {
		if !present(t, prometheus.Labels{"model": string(m.ID)}) {
			return true
		}
	}
	for _, x := range before.Proto().GetTenants() {
		if _, ok := t.Tenant(fleet.TenantID(x.GetId())); !ok {
			return true
		}
	}
	for _, rule := range before.Rules() {
		if t.RuleOf(rule.Policy) == nil {
			return true
		}
		for i := range rule.Arms {
			if t.RuleOf(rule.Policy).Arm(rule.Arms[i].ID) == nil {
				return true
			}
		}
	}
	return false
}

// pruneSeries does so now and then until ctx ends.
func (r *Router) pruneSeries(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.series.again()
		}
	}
}

// register registers all of several metrics, or says which could not be.
func register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	var problems []error
	for _, c := range all {
		problems = append(problems, reg.Register(c))
	}
	return errors.Join(problems...)
}
