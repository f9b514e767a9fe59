package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/account"
	"anabranch/costmodel"
)

// Costs is what was used in a time, and what it cost, by the fields of a key that were asked for.
type Costs struct {
	// From and Until are what the answer covers of the time asked for, in whole minutes, hours or days, Until not
	// included. They are equal where the account has nothing of it.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Begun is when the account begins; zero: it has not begun.
	Begun time.Time `json:"begun,omitzero"`
	// CompleteUntil is the end of the last minute that is closed: of later ones nothing is told yet. Zero: none
	// is.
	CompleteUntil time.Time `json:"completeUntil,omitzero"`
	// Complete: all of the time asked for is covered, without gaps.
	Complete bool     `json:"complete"`
	By       []string `json:"by"`
	Step     string   `json:"step"` // none, minute, hour or day
	Idle     string   `json:"idle"` // apart or spread
	// Keys are how many keys were told apart, those that Rows put together among them.
	Keys int `json:"keys"`
	// Folded: some of it is of a key that says "(other)": the account had no room to tell all keys apart.
	Folded bool `json:"folded"`
	// LateAnswers of that time, whoever's, came too late to bear their share of what clusters cost. They are not
	// told to tokens that are bound to tenants.
	LateAnswers int64 `json:"lateAnswers"`
	// Gaps are times in it for which nothing was billed.
	Gaps []CostGap `json:"gaps"`
	// Rows by time; within one, those that cost most first, unless another order was asked for.
	Rows  []CostRow `json:"rows"`
	Total CostSum   `json:"total"`
}

// CostGap is a time for which nothing was billed: what was used is told, and what it cost is not.
type CostGap struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// CostRow is what one key used in one step. Fields of the key that were not asked for are empty; an empty one
// that was asked for is nobody's in particular: idle time is of no tenant, copies for a shadow are of none.
type CostRow struct {
	Start   time.Time `json:"start"`
	Until   time.Time `json:"until"`
	Tenant  string    `json:"tenant"`
	Model   string    `json:"model"`
	Class   string    `json:"class"`
	Cluster string    `json:"cluster"`
	Region  string    `json:"region"`
	Source  string    `json:"source"`
	// Merged is how many keys were put together in a row for all that are beyond the limit, whose key is empty;
	// 0: the row is of its key alone.
	Merged int `json:"merged"`
	CostSum
}

// CostSum adds up what was used and what it cost. Amounts are decimal numbers of dollars, exact to the
// micro-dollar, as text: sums of rounded ones would not be the total.
type CostSum struct {
	// InputTokens, of which CachedInputTokens came from a prefix cache.
	InputTokens       int64 `json:"inputTokens"`
	CachedInputTokens int64 `json:"cachedInputTokens"`
	OutputTokens      int64 `json:"outputTokens"`
	Succeeded         int64 `json:"succeeded"`
	// Failed by the service's doing: not those that their client left, or that asked for what can't be.
	Failed int64 `json:"failed"`
	// EgressBytes of answers that left the region where they were made.
	EgressBytes int64 `json:"egressBytes"`
	// Work in units of what an input token takes.
	Work float64 `json:"work"`
	// PaidUSD is WorkUSD (GPUs while they worked, and providers by token), EgressUSD and IdleUSD together. Idle
	// time that is spread is part of WorkUSD.
	PaidUSD   string `json:"paidUSD"`
	WorkUSD   string `json:"workUSD"`
	EgressUSD string `json:"egressUSD"`
	IdleUSD   string `json:"idleUSD"`
	// CarbonUSD is the price of emissions, which nobody bills: it is no part of PaidUSD.
	CarbonUSD string `json:"carbonUSD"`
	// PerMillionTokensUSD and PerAnswerUSD are work and egress by a million tokens and by answer that succeeded,
	// rounded up; nil: there were none.
	PerMillionTokensUSD *string `json:"perMillionTokensUSD"`
	PerAnswerUSD        *string `json:"perAnswerUSD"`
	// Estimate: a price behind it is an estimate. Unpriced: one is not known, and the amounts are too low.
	Estimate bool `json:"estimate"`
	Unpriced bool `json:"unpriced"`
}

func sumOf(s costmodel.Sum) CostSum {
	per := func(cost costmodel.Micros, ok bool) *string {
		if !ok {
			return nil
		}
		text := dollars(cost)
		return &text
	}
	return CostSum{
		InputTokens: s.Input, CachedInputTokens: s.Cached, OutputTokens: s.Output, Succeeded: s.Succeeded, Failed: s.Failed,
		EgressBytes: s.Bytes, Work: float64(s.Work) / 1000,
		PaidUSD: dollars(s.Paid()), WorkUSD: dollars(s.Cost), EgressUSD: dollars(s.Egress), IdleUSD: dollars(s.Idle), CarbonUSD: dollars(s.Carbon),
		PerMillionTokensUSD: per(s.PerMillionTokens()), PerAnswerUSD: per(s.PerSuccess()), Estimate: s.Estimate, Unpriced: s.Unpriced,
	}
}

// dollars are an amount without its sign of a currency: "0.05".
func dollars(m costmodel.Micros) string { return strings.Replace(m.String(), "$", "", 1) }

// costs answers what was used and what it cost.
func (s *Server) costs(c echo.Context) error {
	q, err := costQueryOf(c, s.o.Now())
	if err != nil {
		return err
	}
	view, err := s.view(c)
	if err != nil {
		return err
	}
	scope := identity(c).Scope
	nobody := q.narrow(scope)
	report, ranked, err := s.reckon(c.Request().Context(), view.Account(), q, nobody)
	if err != nil {
		return err
	}
	if len(scope.Tenants) > 0 {
		report.Late = 0 // they may be anybody's
	}
	if q.csv {
		return s.sendCharges(c, view, ranked.rows)
	}
	return c.JSON(http.StatusOK, q.answer(view.Account().Begun(), report, ranked))
}

// reckon asks the account and ranks what it says, of nobody none of it. It has its place while it does so, and not
// while the answer is sent: a client who reads slowly keeps none from others.
func (s *Server) reckon(ctx context.Context, a account.Account, q costQuery, nobody bool) (report account.Report, out ranked, err error) {
	leave, err := s.reckoning.take(ctx) // a long time takes long to unpack
	if err != nil {
		return report, out, err
	}
	defer leave()
	report, err = a.Ask(q.Query)
	switch {
	case errors.Is(err, account.ErrTime) || errors.Is(err, account.ErrStep) || errors.Is(err, account.ErrRows):
		return report, out, newProblem(codeInvalidRequest, sentence(err))
	case err != nil:
		return report, out, fmt.Errorf("read the account: %w", err)
	case nobody:
		report.Rows = nil
	}
	out, err = q.rank(report.Rows)
	return report, out, err
}

// sentence is an error as a problem tells it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// answer shows a report and its rows.
func (q costQuery) answer(begun time.Time, report account.Report, ranked ranked) Costs {
	out := Costs{
		From: report.From.UTC(), Until: report.Until.UTC(), Begun: begun, CompleteUntil: report.Closed.UTC(), Complete: report.Complete,
		By: q.by, Step: q.step, Idle: q.idle, Keys: ranked.keys, Folded: ranked.folded, LateAnswers: report.Late,
		Gaps: []CostGap{}, Rows: []CostRow{}, Total: sumOf(ranked.total),
	}
	for _, g := range report.Gaps {
		out.Gaps = append(out.Gaps, CostGap{From: g.From.UTC(), Until: g.Until.UTC()})
	}
	for _, r := range ranked.rows {
		out.Rows = append(out.Rows, CostRow{
			Start: r.Start.UTC(), Until: r.Until.UTC(), Tenant: string(r.Key.Tenant), Model: string(r.Key.Model), Class: string(r.Key.Class),
			Cluster: string(r.Key.Cluster), Region: string(r.Key.Region), Source: string(r.Key.Source), Merged: r.merged, CostSum: sumOf(r.Sum),
		})
	}
	return out
}
