package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/failover/drill"
)

// plan is the spec of a drill of a kind at a target, in times that are a twentieth of the usual ones, or less. Changes
// beats all of that.
func plan(kind string, target string, changes map[string]any) map[string]any {
	p := map[string]any{"kind": kind, "test": true, "timeScale": 0.03}
	if target != "" {
		p["target"] = map[string]any{"region": target}
	}
	maps.Copy(p, changes)
	return p
}

// begin makes a drill as ann, has bob approve what its dry run found, and starts it. Of one that is refused it gives what
// it came to.
func (f *fleet) begin(spec map[string]any) *client.Drill {
	f.t.Helper()
	var d *client.Drill
	say := func(what string, act func(ctx context.Context) (*client.Drill, error)) {
		f.t.Helper()
		var was drill.State
		if d != nil {
			was = d.State
		}
		f.await(2*time.Minute, what, func() error {
			ctx, cancel := context.WithTimeout(f.t.Context(), 40*time.Second)
			defer cancel()
			next, err := act(ctx)
			if err != nil && d != nil { // it may be done, and only the answer lost
				if now, found := f.ann.Drill(ctx, d.ID); found == nil && now.State != was {
					next, err = now, nil
				}
			}
			if err == nil {
				d = next
			}
			return err
		})
	}
	say("a draft", func(ctx context.Context) (*client.Drill, error) {
		return f.ann.CreateDrill(ctx, client.NewDrill{Spec: written(spec)})
	})
	say("its dry run", func(ctx context.Context) (*client.Drill, error) { return f.ann.DecideDrill(ctx, d.ID, "validate") })
	if d.State == drill.Done {
		return d
	}
	say("its approval", func(ctx context.Context) (*client.Drill, error) {
		return f.bob.ApproveDrill(ctx, d, false)
	})
	say("its start", func(ctx context.Context) (*client.Drill, error) { return f.ann.DecideDrill(ctx, d.ID, "start") })
	return d
}

// written is a spec as JSON.
func written(spec map[string]any) json.RawMessage {
	doc, _ := json.Marshal(spec) // words and numbers
	return doc
}

// reach waits until a drill has come to a state, or to its end, and resumes it wherever another leader has
// paused it: machines that do much else change their leaders. It says how often it did.
func (f *fleet) reach(id string, to drill.State, step int) (d *client.Drill, resumed int) {
	f.t.Helper()
	last := ""
	f.await(10*time.Minute, "drill "+id+" to be "+string(to), func() error {
		next, err := f.ann.Drill(f.t.Context(), id)
		if err != nil {
			return err
		}
		if d = next; string(d.State) != last {
			last = string(d.State)
			f.t.Logf("%s  %s(%d): %s", d.StateSince.Format("15:04:05"), d.State, d.Step, d.Reason)
		}
		switch {
		case d.State == to && d.Step == step, d.State == drill.Done:
			return nil
		case d.State == drill.Paused:
			if _, err := f.ann.DecideDrill(f.t.Context(), id, "resume"); err == nil {
				resumed++
			}
		}
		return fmt.Errorf("it is %s: %s", d.State, d.Reason)
	})
	return d, resumed
}

// starved says that a drill ended only because nobody led for ten seconds, or nobody measured: what this machine does
// besides is at fault, and it is to be tried again.
func starved(d *client.Drill) bool {
	return d.Cause == string(drill.CauseLeader) || d.Cause == string(drill.CauseSight) || d.Cause == string(drill.CauseLease)
}

// at is when a drill entered a state first; zero: it did not.
func at(d *client.Drill, state drill.State) time.Time {
	i := slices.IndexFunc(d.Events, func(e client.DrillEvent) bool { return e.State == state && e.Kind == drill.OfTransition })
	if i < 0 {
		return time.Time{}
	}
	return d.Events[i].At
}

// report reads the report of a drill that is over, which must be what the control plane says that it is.
func (f *fleet) report(d *client.Drill) (drill.Report, []byte) {
	f.t.Helper()
	raw, err := f.ann.DrillReport(f.t.Context(), d.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := drill.Decode(raw)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := drill.VerifyChain([]drill.Link{{Name: "drill " + d.ID, JSON: raw, SHA256: d.ReportSHA256}}); err != nil {
		f.t.Error(err)
	}
	return r, raw
}

// told are the events of a drill, for people.
func told(d *client.Drill) string {
	var lines []string
	for _, e := range d.Events {
		lines = append(lines, fmt.Sprintf("%s %s(%d) %s: %s", e.At.Format("15:04:05"), e.State, e.Step, e.Kind, e.Text))
	}
	return strings.Join(lines, "\n")
}
