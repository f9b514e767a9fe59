package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/costmodel"
)

// costAnswer is the account of a time, as /v1/costs tells it.
type costAnswer struct {
	From          time.Time `json:"from"`
	Until         time.Time `json:"until"`
	Begun         time.Time `json:"begun"`
	CompleteUntil time.Time `json:"completeUntil"`
	Complete      bool      `json:"complete"`
	By            []string  `json:"by"`
	Step          string    `json:"step"`
	Idle          string    `json:"idle"`
	Folded        bool      `json:"folded"`
	LateAnswers   int64     `json:"lateAnswers"`
	Gaps          []struct {
		From  time.Time `json:"from"`
		Until time.Time `json:"until"`
	} `json:"gaps"`
	Rows  []costEntry `json:"rows"`
	Total costSum     `json:"total"`
}

// costEntry is one row of it.
type costEntry struct {
	Start   time.Time `json:"start"`
	Tenant  string    `json:"tenant"`
	Model   string    `json:"model"`
	Class   string    `json:"class"`
	Cluster string    `json:"cluster"`
	Region  string    `json:"region"`
	Source  string    `json:"source"`
	Merged  int       `json:"merged"`
	costSum
}

// costSum is what was used and what it cost.
type costSum struct {
	InputTokens         int64      `json:"inputTokens"`
	CachedInputTokens   int64      `json:"cachedInputTokens"`
	OutputTokens        int64      `json:"outputTokens"`
	Succeeded           int64      `json:"succeeded"`
	Failed              int64      `json:"failed"`
	PaidUSD             amountUSD  `json:"paidUSD"`
	WorkUSD             amountUSD  `json:"workUSD"`
	EgressUSD           amountUSD  `json:"egressUSD"`
	IdleUSD             amountUSD  `json:"idleUSD"`
	CarbonUSD           amountUSD  `json:"carbonUSD"`
	PerMillionTokensUSD *amountUSD `json:"perMillionTokensUSD"`
	PerAnswerUSD        *amountUSD `json:"perAnswerUSD"`
	Estimate            bool       `json:"estimate"`
	Unpriced            bool       `json:"unpriced"`
}

// amountUSD is an amount that comes as decimal text.
type amountUSD costmodel.Micros

// UnmarshalText reads "0.05".
func (a *amountUSD) UnmarshalText(text []byte) error {
	m, err := costmodel.ParseUSD(string(text))
	*a = amountUSD(m)
	return err
}

// String is dollars to the cent, and below one as exactly as they are.
func (a amountUSD) String() string { return usd(costmodel.Micros(a).USD()) }

// unitUSD is the price of a unit to three digits; nil: there is none.
func unitUSD(a *amountUSD) string {
	if a == nil {
		return "-"
	}
	micros := costmodel.Micros(*a)
	for least := costmodel.Micros(10); micros >= 100*least && micros < costmodel.Dollar; least *= 10 {
		if micros < 1000*least {
			micros = (micros + least/2) / least * least
			break
		}
	}
	return usd(micros.USD())
}

// showCosts prints a table of the account, its total, and below what is to be known of it.
func (a *app) showCosts(ctx context.Context, c *client.Client, query url.Values, wide bool) error {
	var all costAnswer
	if err := c.JSON(ctx, pathCosts, query, &all); err != nil {
		return err
	}
	if len(all.Rows) > 0 {
		rows := make([][]string, 0, len(all.Rows)+1)
		for i := range all.Rows {
			rows = append(rows, all.row(&all.Rows[i], wide))
		}
		if err := a.table(all.header(wide), append(rows, all.total(wide))); err != nil {
			return err
		}
	}
	notes := all.notes()
	if len(all.Rows) == 0 && !all.CompleteUntil.IsZero() {
		notes = append([]string{all.nothing(query)}, notes...)
	}
	if all.Total.Unpriced {
		notes = append(notes, unpricedNote(ctx, c, query))
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(a.err, "note: "+note); err != nil {
			return err
		}
	}
	return nil
}

// header names the columns: time, key, and figures.
func (c *costAnswer) header(wide bool) []string {
	var out []string
	if c.Step != "none" {
		out = append(out, "TIME (UTC)")
	}
	for _, field := range c.by() {
		out = append(out, strings.ToUpper(field))
	}
	out = append(out, "COST", "SHARE", "IDLE", "TOKENS", "$/MTOK", "ANSWERS", "$/ANSWER")
	if wide {
		out = append(out, "WORK", "EGRESS", "CARBON", "INPUT", "CACHED", "OUTPUT", "FAILED")
	}
	return out
}

// by are the fields in the order of columns.
func (c *costAnswer) by() []string {
	return slices.DeleteFunc(slices.Clone(costFields), func(f string) bool { return !slices.Contains(c.By, f) })
}

func (c *costAnswer) row(e *costEntry, wide bool) []string {
	var out []string
	if c.Step != "none" {
		layout := map[string]string{"day": time.DateOnly, "hour": "2006-01-02 15:04", "minute": "2006-01-02 15:04"}[c.Step]
		out = append(out, e.Start.UTC().Format(layout))
	}
	for i, field := range c.by() {
		out = append(out, e.name(field, i == 0))
	}
	return append(out, e.figures(c.Total.PaidUSD, wide)...)
}

// name is a field of the key: what is of nobody is idle time, or said to be of nobody; of what was put together
// the first says how many there are.
func (e *costEntry) name(field string, first bool) string {
	value := map[string]string{"tenant": e.Tenant, "model": e.Model, "class": e.Class, "cluster": e.Cluster, "region": e.Region, "source": e.Source}[field]
	switch {
	case e.Merged > 0 && first:
		return fmt.Sprintf("(%d others)", e.Merged)
	case e.Merged > 0:
		return "-"
	case value != "":
		return value
	case e.InputTokens+e.OutputTokens+e.Succeeded+e.Failed == 0:
		return "(idle)"
	}
	return "(none)"
}

func (c *costAnswer) total(wide bool) []string {
	figures := c.Total.figures(c.Total.PaidUSD, wide)
	empty := make([]string, len(c.header(wide))-len(figures)-1)
	return slices.Concat([]string{"TOTAL"}, empty, figures)
}

// figures of a sum, whose share is of all that was paid.
func (s *costSum) figures(of amountUSD, wide bool) []string {
	share := "-"
	if of > 0 {
		share = fmt.Sprintf("%.1f%%", 100*float64(s.PaidUSD)/float64(of))
	}
	out := []string{
		s.marked(s.PaidUSD), share, s.IdleUSD.String(), about(float64(s.InputTokens) + float64(s.OutputTokens)), unitUSD(s.PerMillionTokensUSD),
		about(float64(s.Succeeded)), unitUSD(s.PerAnswerUSD),
	}
	if wide {
		out = append(out, s.WorkUSD.String(), s.EgressUSD.String(), s.CarbonUSD.String(),
			about(float64(s.InputTokens)), about(float64(s.CachedInputTokens)), about(float64(s.OutputTokens)), about(float64(s.Failed)))
	}
	return out
}

// marked is an amount that says how far it is to be believed.
func (s *costSum) marked(a amountUSD) string {
	out := a.String()
	if s.Estimate {
		out = "~" + out
	}
	if s.Unpriced {
		out += "+"
	}
	return out
}

// nothing says why there are no rows: the account holds nothing of the time, or nothing of what was asked for.
func (c *costAnswer) nothing(query url.Values) string {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
	if !c.From.Before(c.Until) {
		return fmt.Sprintf("the account holds nothing of that time: it is from %s to %s", at(c.Begun), at(c.CompleteUntil))
	}
	var of, kinds []string
	for _, field := range costFields {
		if names := query[field]; len(names) > 0 {
			of = append(of, field+" "+strings.Join(names, " or "))
		}
	}
	text := fmt.Sprintf("nothing was used or paid for from %s to %s", at(c.From), at(c.Until))
	if len(of) == 0 {
		return text
	}
	for field, kind := range map[string]string{"tenant": "tenants", "model": "models", "cluster": "clusters", "region": "regions", "source": "regions"} {
		if query.Has(field) && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	text += " of " + strings.Join(of, ", ")
	for i, kind := range kinds {
		kinds[i] = "`anabranch get " + kind + "`"
	}
	if len(kinds) > 0 {
		text += "; names are those of " + strings.Join(kinds, ", ")
	}
	return text
}

// notes are what is to be known of the figures, and what can be done about it.
func (c *costAnswer) notes() (all []string) {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
	if c.CompleteUntil.IsZero() {
		return []string{"the account has not begun: it does once every node of the control plane can keep one (`anabranch controlplane members`)"}
	}
	if c.From.Equal(c.Begun) {
		all = append(all, "the account begins "+at(c.Begun))
	}
	if c.Until.Equal(c.CompleteUntil) {
		all = append(all, fmt.Sprintf("until %s: later minutes are told once they are closed", at(c.Until)))
	}
	for i, g := range c.Gaps {
		if i == maxGapsShown {
			all = append(all, fmt.Sprintf("and %d more gaps; -o json lists them", len(c.Gaps)-i))
			break
		}
		all = append(all, fmt.Sprintf("nothing was billed from %s to %s: no leader closed those minutes", at(g.From), at(g.Until)))
	}
	if c.LateAnswers > 0 {
		all = append(all, about(float64(c.LateAnswers))+" answers were told too late to bear their share")
	}
	if c.Folded {
		all = append(all, costmodel.Other+" is all that there was no room to tell apart")
	}
	if c.Total.Estimate {
		all = append(all, "~ is at estimated prices; `anabranch apply` a RateCard with what you pay, `anabranch prices --cards` shows those there are")
	}
	return all
}

// maxGapsShown bounds the gaps that are told one by one.
const maxGapsShown = 3

// unpricedNote says on which clusters something ran whose price is not known.
func unpricedNote(ctx context.Context, c *client.Client, query url.Values) string {
	const fix = "`anabranch apply` a RateCard for their GPUs, or for the models of a provider"
	var all costAnswer
	q := url.Values{}
	for name, values := range query {
		q[name] = values
	}
	q.Set("by", "cluster")
	q.Del("step")
	var names []string
	if err := c.JSON(ctx, pathCosts, q, &all); err == nil { // else it is not said where
		for _, e := range all.Rows {
			if e.Unpriced && e.Cluster != "" {
				names = append(names, e.Cluster)
			}
		}
	}
	if len(names) == 0 {
		return "+ is at least: some prices are not known; " + fix
	}
	more := ""
	if n := len(names) - maxGapsShown; n > 0 {
		names, more = names[:maxGapsShown], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("+ is at least: prices of clusters %s%s are not known; %s", strings.Join(names, ", "), more, fix)
}
