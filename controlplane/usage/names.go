package usage

import (
	"slices"
	"sync"

	"anabranch/api/routerpb"
	"anabranch/controlplane/state"
)

// names are those that a router may know: of the tables that are kept, since it may hold an earlier one, and
// its requests of a while ago another. Each table is read once, and earlier ones only if a name is not in
// later ones.
type names struct {
	mu   sync.Mutex // guards sets
	sets map[*routerpb.Table]*set
}

// set is what a table names.
type set struct{ tenants, models, classes, clusters map[string]struct{} }

// known are the names that may be counted under a view.
type known struct {
	names  *names
	tables []*routerpb.Table // the newest first
}

func (n *names) of(view *state.View) *known {
	tables := slices.Clone(view.Tables())
	slices.Reverse(tables)
	for _, t := range []*routerpb.Table{view.Table(), view.FreshTable()} {
		if t != nil && !slices.Contains(tables, t) {
			tables = append(tables, t)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for t := range n.sets {
		if !slices.Contains(tables, t) {
			delete(n.sets, t)
		}
	}
	return &known{n, tables}
}

func (n *names) set(t *routerpb.Table) *set {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.sets[t]; s != nil {
		return s
	}
	if n.sets == nil {
		n.sets = map[*routerpb.Table]*set{}
	}
	s := &set{map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}, map[string]struct{}{}}
	for _, x := range t.GetTenants() {
		s.tenants[x.GetId()] = struct{}{}
	}
	for _, x := range t.GetModels() {
		s.models[x.GetId()] = struct{}{}
	}
	for _, x := range t.GetClasses() {
		s.classes[x.GetId()] = struct{}{}
	}
	for _, x := range t.GetClusters() {
		s.clusters[x.GetId()] = struct{}{}
	}
	n.sets[t] = s
	return s
}

func (k *known) in(name string, of func(*set) map[string]struct{}) bool {
	for _, t := range k.tables {
		if _, there := of(k.names.set(t))[name]; there {
			return true
		}
	}
	return false
}

func (k *known) tenant(name string) bool {
	return k.in(name, func(s *set) map[string]struct{} { return s.tenants })
}

func (k *known) model(name string) bool {
	return k.in(name, func(s *set) map[string]struct{} { return s.models })
}

func (k *known) class(name string) bool {
	return k.in(name, func(s *set) map[string]struct{} { return s.classes })
}

func (k *known) cluster(name string) bool {
	return k.in(name, func(s *set) map[string]struct{} { return s.clusters })
}
