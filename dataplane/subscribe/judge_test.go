package subscribe

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"anabranch/dataplane/table"
)

func ref(cluster string, epoch, revision uint64) table.Ref {
	return table.Ref{ClusterID: cluster, Epoch: epoch, Revision: revision}
}

func TestWhichTablesAreTaken(t *testing.T) {
	cases := map[string]struct {
		held, pushed table.Ref
		want         verdict
		code         string
	}{
		"the first, whatever it is":         {table.Ref{}, ref("a", 1, 7), take, ""},
		"a later revision":                  {ref("a", 1, 7), ref("a", 1, 8), take, ""},
		"a later epoch with fewer entries":  {ref("a", 1, 700), ref("a", 2, 3), take, ""},
		"the one that is held":              {ref("a", 1, 7), ref("a", 1, 7), again, ""},
		"an older revision":                 {ref("a", 1, 7), ref("a", 1, 6), refuse, CodeOlder},
		"an older epoch with more entries":  {ref("a", 2, 7), ref("a", 1, 900), refuse, CodeOlder},
		"another control plane":             {ref("a", 1, 7), ref("b", 9, 900), refuse, CodeOtherCluster},
		"no cluster named":                  {table.Ref{}, ref("", 1, 7), refuse, CodeNoNumber},
		"no revision named":                 {table.Ref{}, ref("a", 1, 0), refuse, CodeNoNumber},
		"no revision named, with one held":  {ref("a", 1, 7), ref("a", 2, 0), refuse, CodeNoNumber},
		"no number at all, with none held":  {table.Ref{}, table.Ref{}, refuse, CodeNoNumber},
		"a foreign one with the same order": {ref("a", 1, 7), ref("b", 1, 7), refuse, CodeOtherCluster},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, refusal := judge(c.held, c.pushed)
			if got != c.want {
				t.Fatalf("verdict %d, want %d", got, c.want)
			}
			if (refusal != nil) != (c.want == refuse) {
				t.Fatalf("refusal %v", refusal)
			}
			if refusal != nil && refusal.Code != c.code {
				t.Errorf("code %q, want %q", refusal.Code, c.code)
			}
		})
	}
}

// However pushes of one cluster are ordered, repeated or lost, what is held only rises, and ends at
// the highest that came.
func TestHeldTablesOnlyRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		held, highest := table.Ref{}, table.Ref{}
		for range rapid.IntRange(1, 40).Draw(t, "pushes") {
			pushed := ref("a", rapid.Uint64Range(1, 3).Draw(t, "epoch"), rapid.Uint64Range(1, 6).Draw(t, "revision"))
			what, _ := judge(held, pushed)
			if what == take {
				if held != (table.Ref{}) && (pushed.Epoch < held.Epoch || pushed.Epoch == held.Epoch && pushed.Revision <= held.Revision) {
					t.Fatalf("took %v after %v", pushed, held)
				}
				held = pushed
			}
			if pushed.Epoch > highest.Epoch || pushed.Epoch == highest.Epoch && pushed.Revision > highest.Revision {
				highest = pushed
			}
		}
		if held != highest {
			t.Fatalf("holds %v, the highest pushed was %v", held, highest)
		}
	})
}

func TestRefusalsKeepTheCodeOfTheTable(t *testing.T) {
	got := refusalOf(&table.Invalid{Code: "weights_sum", Field: "weights[2]", Message: "sum to 0"})
	if got.Code != "weights_sum" || got.Field != "weights[2]" || got.Message != "sum to 0" {
		t.Errorf("got %+v", got)
	}
	if got.String() != "weights_sum at weights[2]: sum to 0" {
		t.Errorf("reads %q", got.String())
	}
	if other := refusalOf(errors.New("odd")); other.Code != CodeInvalid || other.Message != "odd" {
		t.Errorf("got %+v", other)
	}
}

func TestBackoffIsBoundedAndDoubles(t *testing.T) {
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	for failures, bound := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
		1600 * time.Millisecond, 3200 * time.Millisecond, longest, longest,
	} {
		if got := Backoff(failures, shortest, longest, 0); got != 0 {
			t.Errorf("%d failures, lowest draw: %v", failures, got)
		}
		if got := Backoff(failures, shortest, longest, 0.5); got != bound/2 {
			t.Errorf("%d failures, middle draw: %v, want %v", failures, got, bound/2)
		}
	}
	for _, failures := range []int{31, 32, 63, 64, 1000} {
		if got := Backoff(failures, shortest, longest, 0.999); got > longest || got < longest*9/10 {
			t.Errorf("%d failures: %v", failures, got)
		}
	}
}
