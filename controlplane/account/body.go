package account

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"anabranch/api/fleet"
	"anabranch/costmodel"
)

// body is what an interval holds. Of minutes it is what was used and what clusters cost, of hours and days what
// has been attributed.
type body struct {
	closed bool  // a minute for which bills were made
	late   int64 // answers that came too late to pay a share of what clusters cost
	bills  []costmodel.Interval
	sums   costmodel.Rollup
}

// A body is written by hand, so that it is the same bytes on nodes of all builds: they are hashed and compared.
// It is the version, whether it is closed, the late answers, the names that occur but the empty one, the bills
// and the sums, each list after its length. Names are told by their place among them, from 1. All numbers are
// unsigned varints.
const bodyVersion = 1

// flags of bills and sums.
const (
	flagEstimate = 1 << iota
	flagUnpriced
)

func flagsOf(estimate, unpriced bool) (f uint64) {
	if estimate {
		f |= flagEstimate
	}
	if unpriced {
		f |= flagUnpriced
	}
	return f
}

// numbers are those of a sum in the order in which they are written.
func numbers(s *costmodel.Sum) [11]*int64 {
	return [11]*int64{
		&s.Input, &s.Cached, &s.Output, &s.Succeeded, &s.Failed, &s.Bytes,
		(*int64)(&s.Work), (*int64)(&s.Cost), (*int64)(&s.Idle), (*int64)(&s.Egress), (*int64)(&s.Carbon),
	}
}

// names of a key in the order in which they are written.
func namesOf(k costmodel.Key) [6]string {
	return [6]string{string(k.Region), string(k.Cluster), string(k.Tenant), string(k.Model), string(k.Class), string(k.Source)}
}

func keyOf(n [6]string) costmodel.Key {
	return costmodel.Key{
		Region: fleet.RegionID(n[0]), Cluster: fleet.ClusterID(n[1]), Tenant: fleet.TenantID(n[2]),
		Model: fleet.ModelID(n[3]), Class: fleet.ClassID(n[4]), Source: fleet.RegionID(n[5]),
	}
}

// encode writes a body whose bills are sorted by cluster.
func (b body) encode() []byte {
	keys := b.sums.Keys()
	places := map[string]uint64{}
	for _, k := range keys {
		for _, n := range namesOf(k) {
			places[n] = 0
		}
	}
	for _, v := range b.bills {
		places[string(v.Cluster)], places[string(v.Region)] = 0, 0
		for _, m := range v.Models {
			places[string(m.Model)] = 0
		}
	}
	delete(places, "")
	names := slices.Sorted(maps.Keys(places))
	for i, n := range names {
		places[n] = uint64(i) + 1
	}
	out := []byte{bodyVersion, 0}
	if b.closed {
		out[1] = 1
	}
	put := func(n uint64) { out = binary.AppendUvarint(out, n) }
	name := func(s string) { put(places[s]) }
	put(uint64(b.late))
	put(uint64(len(names)))
	for _, n := range names {
		put(uint64(len(n)))
		out = append(out, n...)
	}
	put(uint64(len(b.bills)))
	for _, v := range b.bills {
		name(string(v.Cluster))
		name(string(v.Region))
		put(uint64(v.Bill.Cost))
		put(uint64(v.Carbon))
		put(uint64(v.Capacity))
		put(flagsOf(v.Bill.Estimate, v.Bill.Unpriced))
		put(uint64(len(v.Models)))
		for _, m := range v.Models {
			name(string(m.Model))
			put(uint64(m.Capacity))
		}
	}
	put(uint64(len(keys)))
	for _, k := range keys {
		for _, n := range namesOf(k) {
			name(n)
		}
		s := b.sums[k]
		for _, n := range numbers(&s) {
			put(uint64(*n))
		}
		put(flagsOf(s.Estimate, s.Unpriced))
	}
	return out
}

// reader reads what encode wrote. After the first error it reads zeros.
type reader struct {
	rest  []byte
	names []string
	err   error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = errors.New(what)
	}
	r.rest = nil
}

func (r *reader) number() int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > math.MaxInt64 {
		r.fail("a number is cut off or too large")
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// length of a list whose items take at least so many bytes.
func (r *reader) length(least int) int {
	n := r.number()
	if n > int64(len(r.rest)/least) {
		r.fail("a list is longer than what is left")
		return 0
	}
	return int(n)
}

func (r *reader) name() string {
	n := r.number()
	switch {
	case n == 0:
		return ""
	case n > int64(len(r.names)):
		r.fail("a name is missing")
		return ""
	}
	return r.names[n-1]
}

func (r *reader) flags() (estimate, unpriced bool) {
	f := r.number()
	return f&flagEstimate != 0, f&flagUnpriced != 0
}

// decode reads what encode wrote. It fails on anything else that can be told from it.
func decode(data []byte) (body, error) {
	if len(data) < 2 || data[0] != bodyVersion || data[1] > 1 {
		return body{}, fmt.Errorf("read an interval of the account: it is of another version than %d", bodyVersion)
	}
	r := &reader{rest: data[2:]}
	b := body{closed: data[1] == 1, late: r.number()}
	for range r.length(1) {
		n := r.length(1)
		r.names = append(r.names, string(r.rest[:n]))
		r.rest = r.rest[n:]
	}
	for range r.length(7) {
		v := costmodel.Interval{
			Cluster: fleet.ClusterID(r.name()), Region: fleet.RegionID(r.name()),
			Bill: costmodel.Priced{Cost: costmodel.Micros(r.number())}, Carbon: costmodel.Micros(r.number()), Capacity: costmodel.Work(r.number()),
		}
		v.Bill.Estimate, v.Bill.Unpriced = r.flags()
		for range r.length(2) {
			v.Models = append(v.Models, costmodel.ModelCapacity{Model: fleet.ModelID(r.name()), Capacity: costmodel.Work(r.number())})
		}
		b.bills = append(b.bills, v)
	}
	count := r.length(18)
	b.sums = make(costmodel.Rollup, count)
	for range count {
		var names [6]string
		for i := range names {
			names[i] = r.name()
		}
		var s costmodel.Sum
		for _, n := range numbers(&s) {
			*n = r.number()
		}
		s.Estimate, s.Unpriced = r.flags()
		b.sums[keyOf(names)] = s
	}
	if len(r.rest) > 0 {
		r.fail("there is something behind its end")
	}
	if r.err != nil {
		return body{}, fmt.Errorf("read an interval of the account: %w", r.err)
	}
	return b, nil
}
