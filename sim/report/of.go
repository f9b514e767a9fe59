package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"anabranch/sim"
	"anabranch/sim/report/stat"
	"anabranch/sim/world"
)

// Of computes the figures of a simulated run.
func Of(r *world.Result) Figures {
	requests := requestsOf(r)
	end := r.Ended
	for i := range requests {
		end = max(end, requests[i].Last)
	}
	f := Figures{
		Policy: r.Policy, Seed: r.Seed,
		Seconds: stat.Number(max(end-r.Spec.Warmup, 0).Seconds()),
	}
	objective := objectives(r.Spec)
	f.count(requests, objective)
	f.quotas(requests, r.Spec.Quotas)
	f.Recovery = recovery(r, requests, r.Spec.Warmup, objective)
	warm, _ := slices.BinarySearch(r.Points, r.Spec.Warmup)
	f.Weights = churn(from(warm, r.Series.Weights), len(r.Spec.Clusters), r.Points[warm:])
	f.Queue.Routers = sumOfMeans(from(warm, r.Series.Queue))
	f.Queue.Pods = sumOfMeans(from(warm, r.Series.Waiting))
	f.Queue.Running = sumOfMeans(from(warm, r.Series.Running))
	f.Timeline = timeline(r, requests)

	clusters, pods := make([]Cluster, len(r.Spec.Clusters)), make([][]pod, len(r.Spec.Clusters))
	preempted := uint64(0)
	for i, c := range r.Spec.Clusters {
		clusters[i] = Cluster{Name: string(c.ID), Region: string(c.Region)}
		for j, p := range r.Pods[i] {
			pods[i] = append(pods[i], pod{
				name: podName(j), class: p.Class, served: p.Served, prompt: p.Prompt, cached: p.Cached, alive: p.Alive,
			})
			preempted += p.Preempted
		}
	}
	f.shares(clusters, pods)
	f.Preemptions = stat.Number(preempted)
	f.costs(r, requests)
	return f
}

func podName(i int) string { return "pod-" + strconv.Itoa(i) }

// requestsOf names what the records number.
func requestsOf(r *world.Result) []Request {
	out := make([]Request, len(r.Records))
	for i := range r.Records {
		c := &r.Records[i]
		q := Request{
			At: c.At, First: c.First, Last: c.Last, Queued: c.Queued,
			Prompt: int(c.Prompt), Output: int(c.Output), Cached: int(c.Cached), Attempts: int(c.Attempts),
			End: c.End, Abroad: c.Abroad, Region: string(r.Spec.Regions[c.Region].ID),
		}
		if int(c.Model) < len(r.Spec.Models) && c.Model >= 0 {
			q.Model = string(r.Spec.Models[c.Model].ID)
		}
		if int(c.Tenant) < len(r.Tenants) && c.Tenant >= 0 {
			q.Tenant = string(r.Tenants[c.Tenant])
		}
		if c.Cluster >= 0 {
			q.Cluster, q.Served = string(r.Spec.Clusters[c.Cluster].ID), string(r.Spec.Clusters[c.Cluster].Region)
		}
		if c.Pod >= 0 {
			q.Endpoint = podName(int(c.Pod))
		}
		out[i] = q
	}
	return out
}

func objectives(spec *world.Spec) func(string) Objective {
	of := map[string]Objective{}
	for _, m := range spec.Models {
		of[string(m.ID)] = Objective{
			FirstToken: cmp.Or(m.FirstToken, defaultObjective.FirstToken),
			InterToken: cmp.Or(m.InterToken, defaultObjective.InterToken),
		}
	}
	return func(model string) Objective {
		if o, ok := of[model]; ok {
			return o
		}
		return defaultObjective
	}
}

// from are the rows without their first n values.
func from(n int, rows [][]float32) [][]float32 {
	out := make([][]float32, len(rows))
	for i, row := range rows {
		out[i] = row[min(n, len(row)):]
	}
	return out
}

// sumOfMeans is the mean over time of the rows' sum; unknown without any.
func sumOfMeans(rows [][]float32) stat.Number {
	sum, n := 0.0, 0
	for _, row := range rows {
		n = max(n, len(row))
		for _, v := range row {
			sum += float64(v)
		}
	}
	return stat.Ratio(sum, float64(n))
}

// costs of the fleet and of the work that it did.
func (f *Figures) costs(r *world.Result, requests []Request) {
	var fleet int64
	work, priced := 0.0, true
	for i, c := range r.Spec.Clusters {
		for _, p := range r.Pods[i] {
			fleet += p.MicroUSD
			rate, weight := capacity(r.Spec, c, p.Class, p.Prompt, p.Served)
			done := float64(p.Prompt-p.Cached) + weight*float64(p.Output)
			switch {
			case done == 0 || p.MicroUSD == 0:
			case rate == 0 || p.Alive == 0:
				priced = false
			default:
				work += done / rate * float64(p.MicroUSD) / p.Alive.Seconds()
			}
		}
	}
	answers, tokens := 0, 0
	for i := range requests {
		if requests[i].End == world.OK {
			answers++
			tokens += requests[i].Prompt + requests[i].Output
		}
	}
	f.Cost.Fleet, f.Cost.Work = stat.Number(fleet), stat.Number(work)
	if !priced {
		f.Cost.Work = stat.Unknown
	}
	f.Cost.PerAnswer = stat.Ratio(float64(fleet), float64(answers))
	f.Cost.WorkPerAnswer = stat.Ratio(float64(f.Cost.Work), float64(answers))
	f.Cost.PerMillion = stat.Ratio(float64(fleet)*1e6, float64(tokens))
	f.Cost.OverBound = stat.Unknown
}

// defaultWeight is that of world.Model.
const defaultWeight = 3

// capacity is how many prompt tokens a second a pod of the class computes at full use, prompts being
// as long as its requests' were on average, and how many of them an output token counts as. The rate
// is 0 when the class or the model is not known.
func capacity(spec *world.Spec, c world.Cluster, class string, prompt int64, served int) (rate, weight float64) {
	model := string(c.Model)
	weight = defaultWeight
	for _, m := range spec.Models {
		if m.ID == c.Model {
			model, weight = cmp.Or(m.Profile, model), cmp.Or(m.OutputWeight, defaultWeight)
		}
	}
	length := int(prompt / int64(max(served, 1)))
	for _, p := range c.Pods {
		if p.Class == class && p.Options.Profile.Class != "" {
			return p.Options.Profile.PrefillRate(length), weight
		}
	}
	p, err := sim.Lookup(class, model)
	if err != nil {
		return 0, weight
	}
	return p.PrefillRate(length), weight
}

// window is from the first arrival to the last end.
func window(requests []Request) (from, to time.Duration) {
	for i := range requests {
		r := &requests[i]
		if i == 0 || r.At < from {
			from = r.At
		}
		to = max(to, r.At, r.Last)
	}
	return from, to
}
