// Package focus writes charges as FOCUS does, the FinOps Open Cost and Usage Specification
// (https://focus.finops.org), in version 1.2: CSV with one charge a row. What is charged is for others.
package focus

import (
	"time"

	"anabranch/costmodel"
)

// Version of the specification whose columns are written.
const Version = "1.2"

// Kind says what a charge is for.
type Kind string

// The kinds of charges.
const (
	// Inference is work that GPUs, or a provider who asks by token, did for requests.
	Inference Kind = "inference"
	// Idle is what was paid for GPUs that had nothing to do.
	Idle Kind = "idle-capacity"
	// Transfer is what answers cost that left their region.
	Transfer Kind = "data-transfer"
)

// Charge is one row.
type Charge struct {
	Kind Kind
	// From is when the charge period begins; Until, at least a second later, is no part of it. Both fall into the billing
	// period, which is the calendar month of From in UTC: a charge does not go on into the next.
	From, Until time.Time
	// Key says whose it is, and where. What is empty is not known or not told apart.
	Key  costmodel.Key
	Cost costmodel.Micros
	// Carbon is the price of emissions, which nobody bills; it is no part of Cost. 0: not told.
	Carbon costmodel.Micros
	// Usage of requests, for Inference.
	Usage costmodel.Usage
	// Bytes that left their region, for Transfer.
	Bytes int64
	// Estimate: a price behind Cost is an estimate. Unpriced: one is not known, and Cost is too low.
	Estimate, Unpriced bool
	// Tags are what operators wrote beside the tenant, such as its cost centre. Nil: nothing.
	Tags map[string]string
}

// Issuer is who charges.
type Issuer struct {
	// Account that is charged: an id, unique among all there are, and a name for people.
	Account, AccountName string
}

// month is the billing period of a moment: a calendar month in UTC.
func month(t time.Time) (from, until time.Time) {
	year, m, _ := t.UTC().Date()
	from = time.Date(year, m, 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0)
}

// quantity is how much was used, as a decimal number, and the unit that counts it.
func (c Charge) quantity() (amount, unit string) {
	tokens, answers := c.Usage.Tokens(), c.Usage.Answers()
	switch {
	case c.Kind == Transfer && c.Bytes > 0:
		return decimal(uint64(c.Bytes), 9), "GB"
	case c.Kind == Inference && tokens > 0:
		return decimal(uint64(tokens), 0), "Tokens"
	case c.Kind == Inference && answers > 0:
		return decimal(uint64(answers), 0), "Requests"
	}
	return decimal(uint64(max(c.Until.Sub(c.From), 0)/time.Second), 0), "Seconds"
}
