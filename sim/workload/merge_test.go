package workload

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

// plain hides that a source can peek.
type plain struct{ Source }

func TestMergeKeepsOrderAndTellsItsSources(t *testing.T) {
	specs := []Spec{
		Uniform{Traffic: Traffic{Seed: 1, Arrivals: Arrivals{Rate: 5}, Requests: 300}},
		SharedPrefix{Traffic: Traffic{Seed: 2, Arrivals: Arrivals{Clients: 4, Think: Delays{Mean: time.Second}}, Requests: 200}},
		Sessions{Traffic: Traffic{Seed: 3, Arrivals: Arrivals{Rate: 2}, Requests: 250}},
	}
	var alone [][]Request
	var sources, opaque []Source
	for _, spec := range specs {
		alone = append(alone, take(t, spec, 1e6, time.Second))
		sources = append(sources, start(t, spec))
		opaque = append(opaque, plain{start(t, spec)})
	}
	all := drain(t, Merge(sources...).(Peeker), 1e6, time.Second)
	if len(all) != 750 {
		t.Fatalf("%d requests, want 750", len(all))
	}
	parts := make([][]Request, 3)
	for _, r := range all {
		k := r.ID % 3
		r.ID /= 3
		parts[k] = append(parts[k], r)
	}
	if !reflect.DeepEqual(parts, alone) {
		t.Error("merged sources give other requests than alone")
	}
	if n := len(drain(t, Merge(opaque...).(Peeker), 1e6, time.Second)); n != 750 {
		t.Errorf("%d requests of sources that can't peek, want 750", n)
	}
}

func TestMergeOfNothingHasEnded(t *testing.T) {
	m := Merge()
	m.Done(1, 0, true)
	if _, ok := m.Next(); ok || !m.Ended() || Err(m) != nil {
		t.Error("something comes of nothing")
	}
}

// broken is a source that ends with an error.
type broken struct{ Source }

var errBroken = errors.New("broken")

func (broken) Err() error { return errBroken }

func TestMergePassesErrorsOn(t *testing.T) {
	whole := start(t, Uniform{Traffic: Traffic{Requests: 1}})
	if err := Err(Merge(whole, broken{start(t, Uniform{Traffic: Traffic{Requests: 1}})})); !errors.Is(err, errBroken) {
		t.Errorf("error is %v", err)
	}
	if err := Err(Merge(whole)); err != nil {
		t.Errorf("error of whole sources: %v", err)
	}
}
