package account

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"anabranch/controlplane/state/statepb"
)

func TestAnAccountIsRestoredAsItWas(t *testing.T) {
	if p := (Account{}).Proto(); p != nil {
		t.Errorf("an account that has not begun is %v", p)
	}
	b := told(t)
	b.closeUntil(at(4*time.Hour), bill("us", 3, 0))
	b.shut(at(5 * time.Hour))
	data, err := proto.Marshal(b.Proto())
	if err != nil {
		t.Fatal(err)
	}
	var p statepb.Account
	if err := proto.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	got, err := FromProto(&p)
	if err != nil || !proto.Equal(got.Proto(), b.Proto()) {
		t.Fatalf("%v, %v", got, err)
	}
	q := Query{From: at(0), Until: at(6 * time.Hour), Step: ByHour}
	if one, other := b.ask(q).total(), must(got.Ask(q)).total(); one != other || one.Paid() == 0 {
		t.Errorf("%+v became %+v", one, other)
	}
	if got, err := FromProto(nil); err != nil || !got.Begun().IsZero() {
		t.Errorf("of nothing %v, %v", got, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestWhatIsNoAccountIsNotRestored(t *testing.T) {
	whole := func() *statepb.Account {
		b := told(t)
		return proto.CloneOf(b.Proto())
	}
	for name, change := range map[string]func(*statepb.Account){
		"closed before it began": func(a *statepb.Account) { a.ClosedUnixS = a.GetBegunUnixS() - 60 },
		"never begun":            func(a *statepb.Account) { a.BegunUnixS = 0 },
		"in no order":            func(a *statepb.Account) { a.Minutes[0], a.Minutes[1] = a.GetMinutes()[1], a.GetMinutes()[0] },
		"no minute":              func(a *statepb.Account) { a.Minutes[0].StartUnixS++ },
		"no hour": func(a *statepb.Account) {
			a.Hours = []*statepb.AccountSpan{{StartUnixS: 60, Body: a.GetMinutes()[0].GetBody()}}
		},
		"an interval cut off":     func(a *statepb.Account) { a.Minutes[3].Body = a.GetMinutes()[3].GetBody()[:9] },
		"an interval of anything": func(a *statepb.Account) { a.Minutes[3].Body = []byte{1, 0, 0, 2, 1, 'b', 1, 'a', 0, 0} },
		"runs in no order":        func(a *statepb.Account) { a.Runs = []*statepb.UsageRun{{Run: "b"}, {Run: "a"}} },
	} {
		a := whole()
		change(a)
		if _, err := FromProto(a); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
}

// Whatever a command holds, it is taken or refused, and the account can be read, asked and restored.
func FuzzCommands(f *testing.F) {
	seed := func(m proto.Message) {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, int64(3600_000))
	}
	seed(&statepb.CountUsage{Runs: []*statepb.UsageRun{{Run: "r", Sequence: 1}}, Minutes: []*statepb.CountedMinute{{MinuteUnixS: 3600, Lines: []*statepb.CountedLine{used("a", "us", 5)}}}})
	seed(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: 3660, Bills: []*statepb.ClusterBill{bill("us", -5, -7)}}}})
	f.Fuzz(func(t *testing.T, data []byte, now int64) {
		b := Account{}
		b, _ = b.Close(&statepb.CloseMinutes{Minutes: []*statepb.MinuteBills{{MinuteUnixS: 3600, Bills: []*statepb.ClusterBill{bill("us", 5, 7)}}}}, 1)
		var count statepb.CountUsage
		if proto.Unmarshal(data, &count) == nil {
			b, _ = b.Count(&count, now, 2)
		}
		var shut statepb.CloseMinutes
		if proto.Unmarshal(data, &shut) == nil {
			b, _ = b.Close(&shut, 3)
			b, _ = b.Count(&count, now, 4)
		}
		if _, err := FromProto(b.Proto()); err != nil {
			t.Fatal(err)
		}
		for _, step := range []Step{Whole, ByMinute, ByDay} {
			r, err := b.Ask(Query{From: time.Unix(now%(1<<33), 0), Until: b.Closed(), Step: step, SpreadIdle: true})
			if err == nil && r.Until.Before(r.From) {
				t.Fatalf("%+v", r)
			}
		}
	})
}
