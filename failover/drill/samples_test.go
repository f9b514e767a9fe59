package drill

import (
	"math"
	"reflect"
	"testing"
)

func TestSecondsAreKeptOneAfterTheOther(t *testing.T) {
	all := hard().Samples
	kept := AppendSamples(AppendSamples(nil, all[:3]...), all[3:]...)
	got, err := ReadSamples(kept)
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%d of %d came back, %v", len(got), len(all), err)
	}
	if got, err := ReadSamples(nil); got != nil || err != nil {
		t.Errorf("of nothing: %v %v", got, err)
	}
	all = all[:3] // enough to be cut at each byte
	kept = AppendSamples(nil, all...)
	for cut := range kept {
		got, err := ReadSamples(kept[:cut])
		if len(got) == len(all) || err == nil && !reflect.DeepEqual(got, all[:len(got)]) && cut > 0 {
			t.Fatalf("cut at %d: %d came back, %v", cut, len(got), err)
		}
	}
}

func TestSecondsWithoutNumbersAreKept(t *testing.T) {
	s := Sample{At: 7, Clusters: []ClusterSample{{Cluster: "a", Saturation: math.NaN(), Queue: math.Inf(1), KV: 0.5}}}
	got, err := ReadSamples(AppendSamples(nil, s))
	if err != nil || len(got) != 1 || got[0].At != 7 || got[0].Clusters[0].Saturation != 0 || got[0].Clusters[0].KV != 0.5 {
		t.Errorf("%+v %v", got, err)
	}
	if !math.IsNaN(s.Clusters[0].Saturation) {
		t.Error("the caller's own was written to")
	}
}

func FuzzReadSamples(f *testing.F) {
	f.Add(AppendSamples(nil, Sample{At: 1}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadSamples(b)
		if err == nil && len(got) > len(b) {
			t.Errorf("%d of %d bytes", len(got), len(b))
		}
	})
}
