package admit

import (
	"anabranch/api/fleet"
	"anabranch/dataplane/table"
	"anabranch/ratelimit"
)

// Ticket names what was charged for a request, to be settled once with what it really used.
type Ticket struct {
	Tenant fleet.TenantID
	// Model is the base model, whatever alias or adapter the client named.
	Model fleet.ModelID
	// Cluster that served it, set by the router before settling. Empty: none did.
	Cluster fleet.ClusterID
	// Path is what was charged. Empty: nothing, as for a tenant without quotas.
	Path []ratelimit.Charge
	// Input and Output are the tokens reserved.
	Input, Output int64
	// InputMicros and OutputMicros are the model's prices in micro-dollars per million tokens.
	InputMicros, OutputMicros uint64
}

func newTicket(t *table.Table, tenant *table.Tenant, model string, input, output int64) Ticket {
	ticket := Ticket{
		Tenant: tenant.ID,
		Input:  min(max(input, 0), maxTokens),
		Output: min(max(output, 0), maxTokens),
	}
	if m, _, ok := t.Model(model); ok {
		ticket.Model, ticket.InputMicros, ticket.OutputMicros = m.ID, m.InputMicros, m.OutputMicros
	}
	return ticket
}

const (
	// bytesPerToken is the usual length of a token of English text.
	bytesPerToken = 4
	// outputReserve is what is set aside for an answer, in tokens, unless the request allows less.
	// Longer answers go into debt when they settle.
	outputReserve = 256
	// maxTokens bounds one request's tokens; no model reads or writes as many.
	maxTokens = 1 << 40
)

// InputTokens estimates the tokens of a prompt of so many bytes of text: a quarter, at least 1.
func InputTokens(promptBytes int) int64 {
	return max(1, (int64(promptBytes)+bytesPerToken-1)/bytesPerToken)
}

// OutputTokens is what to reserve for the answer of a request whose max_tokens is given (0: not
// set): 256, or less if the request allows only less.
func OutputTokens(maxTokens int64) int64 {
	if maxTokens <= 0 {
		return outputReserve
	}
	return min(maxTokens, outputReserve)
}

// Cost is what a request of so many tokens costs at a limit of the given kind.
func Cost(kind ratelimit.Kind, requests, input, output int64) int64 {
	switch kind {
	case ratelimit.Requests:
		return requests
	case ratelimit.InputTokens:
		return input
	case ratelimit.OutputTokens:
		return output
	case ratelimit.TotalTokens:
		return input + output
	}
	return 0
}
