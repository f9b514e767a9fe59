package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/cmd/anabranch/dev"
	"anabranch/cmd/anabranch/dev/seed"
	"anabranch/controlplane/policy"
	"anabranch/dataplane/proxy"
	"anabranch/failover/drill"
)

// shadow counts what would move and moves nothing: its target goes on serving, and routers obey no weights.
func shadow(f *fleet, _ *board) {
	stop := f.drive(rps)
	defer stop()
	d, _ := f.reach(f.begin(plan("shadow", apRegion, map[string]any{"holdSeconds": 700})).ID, drill.Hold, 0)
	if d.State != drill.Hold {
		f.t.Fatalf("%s (%s): %s\n%s", d.Outcome, d.Cause, d.Reason, told(d))
	}
	for _, r := range f.record.Routers {
		if l, err := f.lease(r); err != nil || !l.WatchOnly {
			f.t.Errorf("%s: %+v, %v; want a lease that moves nothing", r.Region, l, err)
		}
	}
	if got := f.served(apRegion, 40); got < 30 {
		f.t.Errorf("%d of 40 requests of %s are served there while nothing is moved", got, apRegion)
	}
	d, _ = f.reach(d.ID, drill.Done, -1)
	if d.Outcome != drill.Succeeded {
		f.t.Errorf("%s (%s): %s\n%s", d.Outcome, d.Cause, d.Reason, told(d))
	}
	if r, _ := f.report(d); r.During.All.Total == 0 || r.Recovery.NinetyNineMs != nil {
		f.t.Errorf("%d requests; traffic left: %v", r.During.All.Total, r.Recovery.NinetyNineMs != nil)
	}
}

// served asks a region's router n times and counts the answers from there.
func (f *fleet) served(region string, n int) (there int) {
	f.t.Helper()
	i := slices.IndexFunc(f.record.Routers, func(r dev.RouterRecord) bool { return r.Region == region })
	for range n {
		by, err := f.answeredBy(f.record.Routers[i].HTTP)
		if err != nil {
			f.t.Error(err)
		}
		if by == region {
			there++
		}
	}
	return there
}

// answeredBy asks a router for a few words, and says which region they came from.
func (f *fleet) answeredBy(router string) (region string, err error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 20*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":"who?"}]}`, f.record.Models[0])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, router+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+f.record.Tenants["acme"].Key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Header.Get(proxy.HeaderRegion), err
}

// planOnly is over with its dry run.
func planOnly(f *fleet, _ *board) {
	d, err := f.ann.CreateDrill(f.t.Context(), client.NewDrill{Spec: written(plan("plan-only", apRegion, nil))})
	if err == nil {
		d, err = f.ann.DecideDrill(f.t.Context(), d.ID, "validate")
	}
	if err != nil {
		f.t.Fatal(err)
	}
	d, _ = f.reach(d.ID, drill.Done, -1)
	if d.Outcome != drill.Succeeded || d.Forecast == nil || !d.NotAfter.IsZero() || f.obeying() != nil {
		f.t.Errorf("%s (%s): %s; forecast %v, leases until %v, obeyed by %v", d.Outcome, d.Cause, d.Reason, d.Forecast != nil, d.NotAfter, f.obeying())
	}
}

// tier1 loses the gateway of the one cluster that stands behind one.
func tier1(f *fleet, b *board) {
	_, r, _ := f.succeeds(b, plan("tier1", "", map[string]any{"target": map[string]any{"cluster": seed.GatewayCluster}}))
	if r.Recovery.DetectMs == nil {
		f.t.Errorf("the report tells no time to detect: %+v", r.Recovery)
		return
	}
	b.add("tier1: detect", 1, float64(*r.Recovery.DetectMs)/1e3, "s")
}

// failbackOnly brings traffic back to a drained cluster and takes it away again.
func failbackOnly(f *fleet, b *board) {
	const cluster = usRegion + "-a"
	f.drain(cluster, true)
	defer f.drain(cluster, false)
	f.await(2*time.Minute, cluster+" to be drained", func() error {
		var v struct {
			Clusters []struct{ Name, Health string }
		}
		if err := f.admin.JSON(f.t.Context(), "/v1/fleet", nil, &v); err != nil {
			return err
		}
		for _, c := range v.Clusters {
			if c.Name == cluster && c.Health != "DRAINED" {
				return fmt.Errorf("it is %s", c.Health)
			}
		}
		return nil
	})
	d, r, _ := f.succeeds(b, plan("failback-only", "", map[string]any{"target": map[string]any{"cluster": cluster}}))
	if at(d, drill.Failback).IsZero() || at(d, drill.RollingBack).IsZero() || r.During.All.Total == 0 {
		f.t.Errorf("it came back at %v and left at %v, over %d requests\n%s", at(d, drill.Failback), at(d, drill.RollingBack), r.During.All.Total, told(d))
	}
}

// scheduled: a plan whose time comes in two minutes makes its drill ahead of time, somebody approves it, and it begins
// by itself.
func scheduled(f *fleet, b *board) {
	stop := f.drive(rps)
	defer stop()
	const name = "by-the-clock"
	due := time.Now().UTC().Truncate(time.Minute).Add(3 * time.Minute)
	spec := plan("soft", apRegion, map[string]any{"schedule": map[string]any{"cron": fmt.Sprintf("%d %d * * *", due.Minute(), due.Hour())}})
	doc, err := json.Marshal(map[string]any{"apiVersion": "anabranch/v1", "kind": policy.KindDrillPlan, "metadata": map[string]any{"name": name}, "spec": spec})
	if err != nil {
		f.t.Fatal(err)
	}
	r, wrong := policy.Parse(doc)
	if wrong != nil {
		f.t.Fatal(wrong)
	}
	f.await(30*time.Second, "the plan", func() error {
		_, err := f.admin.Create(f.t.Context(), r)
		return err
	})
	defer f.await(time.Minute, "the plan to be gone", func() error {
		_, etag, err := f.admin.Get(f.t.Context(), policy.KindDrillPlan, name)
		if err != nil {
			return err
		}
		_, err = f.admin.Do(f.t.Context(), client.Call{Method: http.MethodDelete, Path: "/v1/drillplans/" + name, IfMatch: etag})
		return err
	})
	var d client.Drill
	f.await(2*time.Minute, "the drill to be made ahead of its time", func() error {
		all, err := f.ann.Drills(f.t.Context(), url.Values{})
		if err != nil {
			return err
		}
		for i := range all {
			if all[i].Plan == name && all[i].State == drill.Pending {
				d = all[i]
				return nil
			}
		}
		return fmt.Errorf("%d drills, none of it is waiting for approval", len(all))
	})
	if !d.StartAt.Equal(due) {
		f.t.Errorf("it is to begin at %v, not at %v", d.StartAt, due)
	}
	f.await(30*time.Second, "its approval", func() error {
		_, err := f.bob.ApproveDrill(f.t.Context(), &d, false)
		return err
	})
	over, _ := f.reach(d.ID, drill.Done, -1)
	if over.Outcome != drill.Succeeded {
		f.t.Errorf("%s (%s): %s\n%s", over.Outcome, over.Cause, over.Reason, told(over))
	}
	b.add("scheduled: begun after its time", 0, over.StartedAt.Sub(due).Seconds(), "s")
}

// loaded plays a soft drill while the fleet has much to do, so that what is left has to bear a load that counts.
func loaded(f *fleet, b *board) {
	defer f.burden(burdened)()
	f.await(3*time.Minute, "the load to be measured", func() error {
		s, err := f.fullest(apRegion)
		if err == nil && s < 0.25 {
			<-time.After(2 * time.Second)
			err = fmt.Errorf("the fullest cluster elsewhere is at %.2f", s)
		}
		return err
	})
	before, err := f.fullest(apRegion)
	if err != nil {
		f.t.Fatal(err)
	}
	stop := f.drive(rps)
	d, _ := f.reach(f.begin(plan("soft", apRegion, nil)).ID, drill.Done, -1)
	sum := stop()
	r, _ := f.report(d)
	b.add("under load: fullest survivor before", 0, before, "×")
	b.add("under load: fullest survivor", 1, r.During.PeakSaturation, "×")
	b.add("under load: lost, by clients", 0, float64(sum.Total.Failed+sum.Total.Broken), "")
	if d.Outcome != drill.Succeeded || r.During.PeakSaturation > 1 || sum.Total.Failed+sum.Total.Broken > 0 {
		f.t.Errorf("%s (%s): %s; %s was at %.2f; lost %+v\n%s", d.Outcome, d.Cause, d.Reason, r.During.PeakCluster, r.During.PeakSaturation, sum.Reasons, told(d))
	}
}

// burdened is how many long answers a second are asked for.
const burdened = 40

// fullest is the saturation of the fullest cluster outside of a region, as the routers of its region see it.
func (f *fleet) fullest(but string) (most float64, err error) {
	for _, r := range f.record.Routers {
		if r.Region == but {
			continue
		}
		var s struct {
			Clusters []struct {
				Region     string
				Saturation float64
			}
		}
		if err := f.page(r, &s); err != nil {
			return 0, err
		}
		for _, c := range s.Clusters {
			if c.Region == r.Region {
				most = max(most, c.Saturation)
			}
		}
	}
	return most, nil
}
