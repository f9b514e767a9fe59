package policy

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"anabranch/api/fleet"
	"anabranch/ratelimit"
)

// Bounds of quotas.
const (
	// MaxPerMinute bounds a limit and its burst, in units, so that the products of the arithmetic stay below
	// 2^53: see [ratelimit.Limit.Validate], which ends at 75 thousand million.
	MaxPerMinute = 50_000_000_000
	// MaxConcurrent bounds requests at the same time.
	MaxConcurrent = 10_000_000
	// MaxUSD bounds a budget in dollars, so that micro-dollars stay well below 2^51.
	MaxUSD = 1e9
	// minUSD is a micro-dollar.
	minUSD       = 1e-6
	maxWarnings  = 10
	maxAddresses = 64
)

func (f *finding) quota(s *QuotaSpec) {
	switch {
	case s.Tenant != "" && s.Organization != "":
		f.add("spec.organization", "is given beside spec.tenant", "name one of the two: a tenant's quota is kept with its organisation's all the same")
	case s.Organization != "":
		f.named("spec.organization", s.Organization, fleet.CheckName)
	default:
		f.named("spec.tenant", s.Tenant, fleet.CheckName)
	}
	if s.Model != "" {
		f.named("spec.model", s.Model, fleet.CheckModel)
	}
	if s.Key != "" {
		f.named("spec.key", s.Key, fleet.CheckName)
		if s.Organization != "" {
			f.add("spec.key", "is of a tenant, and spec.organization names several", "name the key's tenant in spec.tenant instead")
		}
	}
	if len(s.Limits) == 0 {
		f.add("spec.limits", "is empty", "give at least one limit")
	}
	seen := map[string]bool{}
	for i := range s.Limits {
		l := &s.Limits[i]
		at := fmt.Sprintf("spec.limits[%d]", i)
		before := len(f.problems)
		f.oneOf(at+".kind", l.Kind, limitKinds)
		if seen[l.Kind] {
			f.add(at+".kind", fmt.Sprintf("%q appears twice", clip(l.Kind)), "keep one of them")
		}
		seen[l.Kind] = true
		if f.limit(at, l); len(f.problems) > before {
			continue
		}
		if err := l.Countable(); err != nil {
			f.add(at, err.Error(), "give a smaller number")
		}
	}
	f.oneOf("spec.degraded", s.Degraded, degradeds)
	f.oneOf("spec.overrun", s.Overrun, overruns)
	if s.HomeRegion != "" {
		f.named("spec.homeRegion", s.HomeRegion, fleet.CheckName)
	}
}

func (f *finding) limit(at string, l *LimitSpec) {
	known := slices.Contains(limitKinds, l.Kind)
	if known {
		f.strangers(at, l)
	}
	switch {
	case l.Money():
		f.budget(at, l)
	case l.Kind == LimitConcurrent:
		f.between(at+".max", float64(l.Max), 1, MaxConcurrent)
	case known || l.PerMinute != 0:
		f.between(at+".perMinute", float64(l.PerMinute), 1, MaxPerMinute)
		if l.Burst != l.PerMinute { // as it is where none is given
			f.between(at+".burst", float64(l.Burst), 0, MaxPerMinute)
		}
	}
}

// strangers complains of fields that a limit of its kind does not have.
func (f *finding) strangers(at string, l *LimitSpec) {
	rate, slots, money := l.rate(), l.Kind == LimitConcurrent, l.Money()
	for _, x := range []struct {
		field       string
		given, fits bool
		of          string
	}{
		{"perMinute", l.PerMinute != 0, rate, "requests and tokens"},
		{"burst", l.Burst != 0, rate, "requests and tokens"},
		{"max", l.Max != 0, slots, LimitConcurrent},
		{"usd", l.USD != 0, money, "money"},
		{"timeZone", l.TimeZone != "", money, "money"},
		{"warnAt", len(l.WarnAt) > 0, money, "money"},
	} {
		if x.given && !x.fits {
			f.add(at+"."+x.field, fmt.Sprintf("is for limits of %s, and this one is of %s", x.of, l.Kind), "remove it")
		}
	}
}

// budget judges what limits of money have.
func (f *finding) budget(at string, l *LimitSpec) {
	f.between(at+".usd", l.USD, minUSD, MaxUSD)
	if err := checkZone(l.TimeZone); err != nil {
		f.add(at+".timeZone", fmt.Sprintf("%q %v", clip(l.TimeZone), err), `write it as "Europe/Berlin", as in the IANA time zone database, or leave it out for UTC`)
	}
	if len(l.WarnAt) > maxWarnings {
		f.add(at+".warnAt", fmt.Sprintf("holds %d numbers, the limit is %d", len(l.WarnAt), maxWarnings), "remove some")
		return
	}
	last := 0
	for i, percent := range l.WarnAt {
		field := fmt.Sprintf("%s.warnAt[%d]", at, i)
		switch {
		case percent < 1 || percent > 100:
			f.add(field, strconv.Itoa(percent)+" is out of range", "give whole percents from 1 to 100")
		case percent <= last:
			f.add(field, fmt.Sprintf("%d comes after %d", percent, last), "write each percentage once, the lowest first")
		}
		last = max(last, percent)
	}
}

// checkZone says what is wrong with the name of a time zone, or nil.
func checkZone(name string) error {
	if name == "Local" { // which package time takes for the machine's own
		return errors.New("is another place on each machine")
	}
	if len(name) > maxModelName {
		return errors.New("is too long")
	}
	place, err := time.LoadLocation(name)
	if err != nil {
		return errors.New("is not a time zone")
	}
	// Of a place whose days can't be told apart no budget could be kept.
	if _, err := ratelimit.Daily.Window(time.Unix(0, 0), place); err != nil {
		return err
	}
	return nil
}

// hostPort: the text is a host and a port from 1 to 65535, and an IPv6 address stands in brackets.
func hostPort(text string) bool {
	at := strings.LastIndexByte(text, ':')
	if at < 1 {
		return false
	}
	host := text[:at]
	if inside, ok := strings.CutPrefix(host, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		ip, err := netip.ParseAddr(inside)
		if !ok || err != nil || !ip.Is6() {
			return false
		}
	} else if strings.ContainsAny(host, ":/@[] ") || strings.ContainsFunc(host, control) {
		return false
	}
	port, err := strconv.ParseUint(text[at+1:], 10, 16)
	return err == nil && port > 0
}

func (f *finding) quotaStore(s *QuotaStoreSpec) {
	const at = "spec.quotaStore"
	if len(s.Addresses) == 0 || len(s.Addresses) > maxAddresses {
		f.add(at+".addresses", fmt.Sprintf("holds %d addresses", len(s.Addresses)), fmt.Sprintf("give 1 to %d, as redis.example:6379", maxAddresses))
	}
	seen := map[string]bool{}
	for i, a := range s.Addresses {
		field := fmt.Sprintf("%s.addresses[%d]", at, i)
		switch {
		case !hostPort(a):
			f.add(field, "is not host:port", "write redis.example:6379; a password belongs into a file on the routers") // what stands there may hold one
		case seen[a]:
			f.add(field, "appears twice", "keep one of them")
		}
		seen[a] = true
	}
	if s.Cluster && s.SentinelMaster != "" {
		f.add(at+".sentinelMaster", "is given beside cluster", "remove one: a cluster looks after its primaries itself")
	}
	if s.PasswordFile != "" && s.PasswordEnv != "" {
		f.add(at+".passwordEnv", "is given beside passwordFile", "keep one of them")
	}
	if s.Username != "" && s.PasswordFile == "" && s.PasswordEnv == "" {
		f.add(at+".username", "has no password", "say in passwordFile or passwordEnv where the routers find it")
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		f.add(at+".keyFile", "and certFile go together", "give both, or neither")
	}
	if !s.TLS && (s.CAFile != "" || s.CertFile != "" || s.KeyFile != "") {
		f.add(at+".tls", "is not set, and files for it are", "set tls: true, or remove the files")
	}
	for _, x := range []struct{ field, text string }{
		{"sentinelMaster", s.SentinelMaster},
		{"username", s.Username},
		{"passwordFile", s.PasswordFile},
		{"passwordEnv", s.PasswordEnv},
		{"caFile", s.CAFile},
		{"certFile", s.CertFile},
		{"keyFile", s.KeyFile},
	} {
		if len(x.text) > maxPath || strings.ContainsFunc(x.text, control) {
			f.add(at+"."+x.field, "is too long or holds control characters", fmt.Sprintf("use at most %d printable bytes", maxPath))
		}
	}
}

// Countable says what is wrong with the limit's numbers for the arithmetic of buckets, or nil.
func (l *LimitSpec) Countable() error {
	level := ratelimit.Level{Limit: ratelimit.Limit{ID: l.Kind, Kind: ratelimit.Kind(l.Kind), Amount: l.PerMinute, PeriodMs: time.Minute.Milliseconds(), Burst: l.Burst}}
	switch {
	case l.Money():
		level.Limit.Kind, level.Limit.Burst = ratelimit.Money, l.Micros()
		level.Window.NextUs = math.MaxInt32 // any: windows are made by calendar and place
	case l.Kind == LimitConcurrent:
		level.Limit.Kind, level.Limit.Burst = ratelimit.Slots, l.Max
	}
	return level.ValidateRule()
}
