package dataplane

import (
	"math"

	"anabranch/dataplane/inference"
	"anabranch/dataplane/meter"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// What a request is charged with: what is set aside for it, and what it turned out to use.

// roomy is the part of a limit's burst that is set aside for one answer at the most, for what is learned of
// answers: where they are so long that none would pass, they shall rather be topped up.
const roomy = 4

// reserve is how many output tokens are set aside for the request by the tenant's quotas.
func (r *Router) reserve(x *trip) int64 {
	n := r.estimates.Output(x.tenant.ID, x.model.ID, x.request.MaxTokens, x.request.Choices)
	least := meter.Least(x.request.MaxTokens, x.request.Choices)
	if n == least {
		return n
	}
	p := x.table.Path(x.tenant.ID, x.model.ID, x.shown)
	if p == nil {
		return n
	}
	for i := range p.Limits {
		n = min(n, fits(&p.Limits[i], x.model))
	}
	return max(n, least)
}

// fits is how many output tokens of a model a part of the limit's burst is enough for.
func fits(l *table.Limit, m *table.Model) int64 {
	switch {
	case l.Kind == ratelimit.OutputTokens, l.Kind == ratelimit.TotalTokens:
		return l.Burst / roomy
	case l.Kind == ratelimit.Money && m.OutputMicros > 0:
		return int64(min(float64(l.Burst)/roomy/float64(m.OutputMicros)*1e6, math.MaxInt32))
	}
	return math.MaxInt64
}

// learn takes in what a request used, if its answer is whole and was counted where it came from.
func (r *Router) learn(x *trip) {
	last := x.last
	if last == nil || !last.Committed || last.Broken || !last.HasUsage || x.status >= 300 {
		return
	}
	r.estimates.Learn(meter.Seen{
		Tenant: x.tenant.ID, Model: x.model.ID, PromptBytes: x.request.PromptBytes, Prompt: last.Usage.Prompt,
		Completion: last.Usage.Completion, Choices: x.request.Choices,
	}, r.now())
}

// subject is whose use it was.
func (x *trip) subject() meter.Subject {
	return meter.Subject{
		Tenant: x.tenant.ID, Model: x.model.ID, Cluster: x.served,
		InputMicros: x.model.InputMicros, OutputMicros: x.model.OutputMicros,
	}
}

// account is what the request used, and how it ended for its quotas.
func (x *trip) account() (meter.Usage, meter.Fate) {
	last := x.last
	switch {
	case x.open > 0: // a defect ended it, when a place may have been at work
		return meter.Usage{}, meter.Broken
	case last == nil || !last.Committed && !x.reached:
		return meter.Usage{}, meter.NotSent
	case !last.Committed && last.ClientGone: // the prompt has been computed for it, or was about to be
		return meter.Usage{}, meter.Broken
	case !last.Committed, x.status >= 400:
		return meter.Usage{}, meter.FailedBeforeContent
	}
	u := meter.Usage(x.used())
	if last.Broken {
		return u, meter.Broken
	}
	return u, meter.Completed
}

// used is the usage that the place of the last attempt told. Where it told none, and in an answer that
// ended too soon for the last word of it, what came of the answer counts, if it is more: the content
// events of a stream, and of an answer that is not streamed its text.
func (x *trip) used() inference.Usage {
	u := x.last.Usage
	if !x.last.HasUsage || x.last.Broken {
		u.Completion = max(u.Completion, x.last.Events, x.textTokens())
	}
	return u
}

// textTokens estimates the tokens of an answer that is not streamed by its text, as prompts are estimated,
// and at most as many as the request allows. 0: by this API there comes something else than text.
func (x *trip) textTokens() int64 {
	switch x.request.API {
	case inference.Chat, inference.Completions, inference.Responses, inference.Messages:
	default:
		return 0
	}
	if x.last.Text == 0 {
		return 0
	}
	tokens := x.expects.Input(x.tenant.ID, x.model.ID, int(x.last.Text))
	if allowed := x.request.MaxTokens; allowed > 0 && tokens/x.request.Choices >= allowed {
		return allowed * x.request.Choices
	}
	return tokens
}
