package state

import (
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"anabranch/api/routerpb"
)

// shallow copies a message without what it refers to, which both share from then on: neither may be written to.
func shallow[M proto.Message](m M) M {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(f, v)
		return true
	})
	out.SetUnknown(m.ProtoReflect().GetUnknown())
	return out.Interface().(M) //nolint:forcetypeassert // it is of m's type
}

// sharing is a table that is like t and has the entries of an earlier one wherever they are alike. Tables are kept by the
// dozen and differ by little: together they take hardly more memory than one. Nil before: t as it is.
func sharing(before, t *routerpb.Table) *routerpb.Table {
	if before == nil || t == nil {
		return t
	}
	out := shallow(t)
	out.Regions = reused(before.GetRegions(), t.GetRegions(), equal)
	out.Clusters = reused(before.GetClusters(), t.GetClusters(), equal)
	out.Models = reused(before.GetModels(), t.GetModels(), equal)
	out.Tenants = reused(before.GetTenants(), t.GetTenants(), equal)
	out.Quotas = reused(before.GetQuotas(), t.GetQuotas(), equal)
	out.Classes = reused(before.GetClasses(), t.GetClasses(), equal)
	out.Rules = reused(before.GetRules(), t.GetRules(), equal)
	out.Organisations = reused(before.GetOrganisations(), t.GetOrganisations(), equal)
	out.Weights = reused(before.GetWeights(), t.GetWeights(), equalWeights)
	was := map[string]*routerpb.Weights{}
	for _, w := range before.GetWeights() {
		was[nameOf(w)] = w
	}
	for i, w := range out.GetWeights() {
		if earlier := was[nameOf(w)]; earlier != nil && earlier != w {
			w = shallow(w)
			w.Clusters = reused(earlier.GetClusters(), w.GetClusters(), equalWeight)
			out.Weights[i] = w
		}
	}
	return out
}

func nameOf(w *routerpb.Weights) string {
	return w.GetModel() + "\x00" + w.GetClass() + "\x00" + w.GetSource()
}

// reused is a list with earlier entries in the place of those that are like them. Both are in the same order, but for some
// that have come or gone in between, so that an entry is looked for as far from the beginning and as far from the end.
func reused[E any](before, now []*E, alike func(a, b *E) bool) []*E {
	if len(now) == 0 {
		return now
	}
	out := slices.Clone(now)
	moved := len(before) - len(now)
	for i, e := range now {
		for _, at := range [...]int{i, i + moved} {
			if at >= 0 && at < len(before) && alike(before[at], e) {
				out[i] = before[at]
				break
			}
		}
	}
	return out
}

func equal[E any, M interface {
	*E
	proto.Message
}](a, b M) bool {
	return proto.Equal(a, b)
}

func equalWeights(a, b *routerpb.Weights) bool {
	return a == b || a.GetModel() == b.GetModel() && a.GetClass() == b.GetClass() && a.GetSource() == b.GetSource() &&
		slices.EqualFunc(a.GetClusters(), b.GetClusters(), equalWeight) &&
		slices.EqualFunc(a.GetShed(), b.GetShed(), func(x, y *routerpb.Shed) bool { return proto.Equal(x, y) }) && known(a) && known(b)
}

// equalWeight is proto.Equal of the entries that there are most of, by hand.
func equalWeight(a, b *routerpb.ClusterWeight) bool {
	return a == b || math.Float64bits(a.GetWeight()) == math.Float64bits(b.GetWeight()) && a.GetStandby() == b.GetStandby() &&
		a.GetCluster() == b.GetCluster() && a.GetReason() == b.GetReason() && known(a) && known(b)
}

// known says that there is nothing in a message that this build does not know.
func known(m proto.Message) bool { return len(m.ProtoReflect().GetUnknown()) == 0 }
