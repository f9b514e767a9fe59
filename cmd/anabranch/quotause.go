package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"

	"anabranch/cmd/anabranch/client"
	"anabranch/costmodel"
)

// limitTally is what routers say of a limit, as /v1/usage tells it.
type limitTally struct {
	Routers           int     `json:"routers"`
	DegradedRouters   int     `json:"degradedRouters"`
	Held              int64   `json:"held"`
	InUse             int64   `json:"inUse"`
	UsedPerMinute     float64 `json:"usedPerMinute"`
	AdmittedPerMinute float64 `json:"admittedPerMinute"`
	DeniedPerMinute   float64 `json:"deniedPerMinute"`
	WouldDenyPerMin   float64 `json:"wouldDenyPerMinute"`
}

// limitUse is how one limit stands, as /v1/usage tells it.
type limitUse struct {
	ID           string   `json:"id"`
	Quota        string   `json:"quota"`
	Kind         string   `json:"kind"`
	Organization string   `json:"organization"`
	Tenant       string   `json:"tenant"`
	Model        string   `json:"model"`
	Keys         []string `json:"keys"`
	Shadow       bool     `json:"shadow"`
	Limit        int64    `json:"limit"`
	PeriodMs     int64    `json:"periodMs"`
	Burst        int64    `json:"burst"`
	Use          float64  `json:"use"`
	Remaining    *struct {
		Units int64 `json:"units"`
		AgeMs int64 `json:"ageMs"`
	} `json:"remaining"`
	Budget *struct {
		Calendar     string    `json:"calendar"`
		TimeZone     string    `json:"timeZone"`
		End          time.Time `json:"end"`
		SpentUSD     float64   `json:"spentUSD"`
		RemainingUSD float64   `json:"remainingUSD"`
		LimitUSD     float64   `json:"limitUSD"`
		WarnedAt     int       `json:"warnedAt"`
	} `json:"budget"`
	Degraded string `json:"degraded"`
	limitTally
	Regions []struct {
		Region string  `json:"region"`
		Share  float64 `json:"share"`
		limitTally
	} `json:"regions"`
}

// limitUses asks how limits stand. The items as they came are for other formats.
func limitUses(ctx context.Context, c *client.Client, query url.Values) ([]limitUse, items, error) {
	list, err := everyPage(ctx, c, "/v1/usage", query)
	if err != nil {
		return nil, list, err
	}
	all := make([]limitUse, len(list.Items))
	for i, raw := range list.Items {
		if err := json.Unmarshal(raw, &all[i]); err != nil {
			return nil, list, fmt.Errorf("read a limit: %w; -o json shows it as it came", err)
		}
	}
	return all, list, nil
}

// subject is whose requests count.
func (l *limitUse) subject() string {
	if l.Tenant == "" {
		return "organization " + l.Organization
	}
	return l.Tenant + l.narrowed(", ")
}

// narrowed names the model and the keys that it is for, each behind what stands between.
func (l *limitUse) narrowed(between string) string {
	out := ""
	if l.Model != "" {
		out += between + "model " + l.Model
	}
	if len(l.Keys) > 0 {
		out += between + "key " + strings.Join(l.Keys, "|")
	}
	return out
}

// rule is what it allows.
func (l *limitUse) rule() string {
	out := amount(l.Limit) + " " + l.Kind
	switch {
	case l.Budget != nil:
		out = usd(l.Budget.LimitUSD) + " a " + l.Budget.Calendar
	case l.PeriodMs == 0:
		out = amount(l.Limit) + " at once"
	case l.Burst == l.Limit:
		out += "/min"
	default:
		out += "/min, burst " + amount(l.Burst)
	}
	if l.Shadow {
		out += " (shadow)"
	}
	return out
}

// usd is dollars to the cent, and below one as exactly as they are: budgets may be far less than a cent.
func usd(dollars float64) string {
	if math.Abs(dollars) < 1 {
		return costmodel.FromUSD(dollars).String()
	}
	return fmt.Sprintf("$%.2f", dollars)
}

// used is what part of it is used.
func (l *limitUse) used() string {
	out := fmt.Sprintf("%.0f%%", 100*l.Use)
	if l.Budget != nil && l.Budget.WarnedAt > 0 {
		out += fmt.Sprintf(" (warned at %d%%)", l.Budget.WarnedAt)
	}
	return out
}

// left is what may remain, and how old that is where it matters.
func (l *limitUse) left() string {
	switch {
	case l.Budget != nil:
		return usd(l.Budget.RemainingUSD)
	case l.Remaining == nil:
		return "-"
	case l.Remaining.AgeMs >= oldLevel.Milliseconds():
		return fmt.Sprintf("~%s (%s old)", about(float64(l.Remaining.Units)), (time.Duration(l.Remaining.AgeMs) * time.Millisecond).Round(time.Second))
	}
	return "~" + about(float64(l.Remaining.Units))
}

// oldLevel is the age from which what remains is shown with it.
const oldLevel = 5 * time.Second

// denied is how many requests a minute it refuses, or would if it were not in shadow.
func (l *limitUse) denied() string {
	if l.Shadow {
		return perMinute(l.WouldDenyPerMin) + " would be"
	}
	return perMinute(l.DeniedPerMinute)
}

// away says which routers keep it by themselves, and by what policy.
func (l *limitUse) away() string {
	if l.DegradedRouters == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d routers (%s)", l.DegradedRouters, l.Routers, l.Degraded)
}

// perMinute writes a rate; what has nearly faded is nothing.
func perMinute(v float64) string {
	switch {
	case v < 0.05:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return about(v)
}

// suffixes of amounts, the largest first.
var suffixes = []struct {
	letter string
	units  int64
}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}}

// amount writes whole units as people do, and exactly: 600, 1.5k, 2M.
func amount(n int64) string {
	for _, s := range suffixes {
		if n%(s.units/100) == 0 && (n >= s.units || n <= -s.units) {
			return strconv.FormatFloat(float64(n)/float64(s.units), 'f', -1, 64) + s.letter
		}
	}
	return strconv.FormatInt(n, 10)
}

// about writes the first three digits of a number.
func about(v float64) string {
	for _, s := range suffixes {
		if part := v / float64(s.units); math.Abs(part) >= 1 {
			return strconv.FormatFloat(part, 'f', max(0, 2-int(math.Log10(math.Abs(part)))), 64) + s.letter
		}
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// units reads an amount that people write: 600, 1.5k, 2M, 1G.
func units(text string) (int64, error) {
	number, factor := strings.TrimSpace(text), int64(1)
	for _, s := range suffixes {
		if rest, ok := strings.CutSuffix(number, s.letter); ok {
			number, factor = rest, s.units
			break
		}
	}
	v, ok := new(big.Rat).SetString(number)
	if !ok || strings.Trim(number, "0123456789.") != "" {
		return 0, noAmount(text)
	}
	if v.Mul(v, new(big.Rat).SetInt64(factor)); !v.IsInt() || v.Sign() <= 0 {
		return 0, noAmount(text)
	}
	if v.Num().BitLen() > 53 {
		return 0, fmt.Errorf("%.40q is too large: write a number below 2^53", text)
	}
	return v.Num().Int64(), nil
}

func noAmount(text string) error {
	return fmt.Errorf("%.40q is no amount: write a whole number above 0, such as 600, 1.5k, 2M or 1G", text)
}

// compareLimits orders limits by how much of them is used, the most first.
func compareLimits(a, b limitUse) int {
	return cmp.Or(cmp.Compare(b.Use, a.Use), cmp.Compare(b.DeniedPerMinute+b.WouldDenyPerMin, a.DeniedPerMinute+a.WouldDenyPerMin), cmp.Compare(a.ID, b.ID))
}
