package dataplane

import (
	"net/http"

	"anabranch/api/fleet"
	"anabranch/dataplane/inference"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/usage"
)

// What clusters did for clients of this router, for the account of money. Each attempt is counted where it
// was made, whatever came of it, since its cluster worked for it; a request is counted once, with its
// answer, by the router that the client asked.

// worked counts what an attempt had its place do. What peers ask for is theirs to count.
func (r *Router) worked(x *trip, t *try) {
	if !x.hop {
		r.usage.Count(x.use(x.where(t)), x.did(t))
	}
}

// answered counts the request. One that no place has seen is none, as it is for quotas, and one that came to nothing
// by its client's doing is neither a success nor a failure: it left, asked for what can't be, or had used its quota up.
func (r *Router) answered(x *trip, fate meter.Fate) {
	switch {
	case x.open > 0: // as it is charged for
		r.usage.Count(x.use(x.latest.target.Cluster.ID), usage.Use{Input: x.prompt, Estimated: x.prompt, Failed: 1})
	case fate == meter.NotSent:
	case fate == meter.Completed:
		r.usage.Count(x.use(x.served), usage.Use{Succeeded: 1})
	case !x.faulty():
	case x.served != "":
		r.usage.Count(x.use(x.served), usage.Use{Failed: 1})
	default:
		r.usage.Count(x.use(x.at.target.Cluster.ID), usage.Use{Failed: 1})
	}
}

// use is whose use of a cluster the request is. Copies are nobody's: policy wants them, no tenant.
func (x *trip) use(cluster fleet.ClusterID) usage.Key {
	k := usage.Key{Tenant: x.tenant.ID, Model: x.model.ID, Class: x.class.ID, Cluster: cluster}
	if x.shadow {
		k.Tenant = ""
	}
	return k
}

// did is what the place of an attempt did, as it told or as the request is charged for. A place that
// refused did nothing, nor did one that was lost before it showed anything, as far as can be known. One that
// was left alone before it had content has read the prompt, or was about to.
func (x *trip) did(t *try) usage.Use {
	result := &t.result
	own, events := result.Own()
	prompt := x.prompt
	if t.a.Resume != nil {
		prompt += t.a.Resume.Tokens
	}
	read := usage.Use{Input: prompt, Estimated: prompt}
	switch {
	case !t.reached:
		return usage.Use{}
	case result.Status == http.StatusGatewayTimeout: // what is behind it was silent
		return read
	case result.Status >= 300:
		return usage.Use{}
	case events == 0 && own == (inference.Usage{}) && (t.a.Resume != nil || !result.Committed):
		if result.Exempt {
			return usage.Use{}
		}
		return read
	}
	u := usage.Use{Input: own.Prompt, Cached: own.Cached, Output: own.Completion}
	if u.Input == 0 {
		u.Input, u.Estimated = read.Input, read.Estimated
	}
	if own == (inference.Usage{}) || result.Broken {
		u.Output = max(u.Output, events, x.textTokens())
		u.Estimated += u.Output - own.Completion
	}
	if t.endpoint == nil {
		u.Bytes = result.Received
	}
	return u
}
