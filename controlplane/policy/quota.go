package policy

import (
	"math"
	"time"

	"anabranch/ratelimit"
)

// QuotaSpec is limits that hold over all routers together: of a tenant, of some of its requests, or of all
// tenants of an organisation.
type QuotaSpec struct {
	// Tenant or Organization, one of the two, is whose requests count.
	Tenant       string `json:"tenant,omitempty"`
	Organization string `json:"organization,omitempty"`
	// Model narrows it to one base model. Empty: all.
	Model string `json:"model,omitempty"`
	// Key narrows it to one API key of the tenant, by its id, and to those that take its place when it is
	// rotated (see [KeyFamily]). Empty: all.
	Key string `json:"key,omitempty"`
	// Limits, at least one, at most one of each kind.
	Limits []LimitSpec `json:"limits"`
	// Degraded says what holds while Redis is away: share (default: each region a part), open
	// (no limit), closed (nothing admitted).
	Degraded string `json:"degraded,omitempty"`
	// Shadow: what the limits would refuse is counted, and nothing is refused.
	Shadow bool `json:"shadow,omitempty"`
	// Overrun says what becomes of an answer that needs more tokens than are left while it streams: finish
	// (default: it goes on, and what is missing is owed) or cut.
	Overrun string `json:"overrun,omitempty"`
	// HomeRegion is the region whose quota store keeps the levels of the whole organisation; all its quotas
	// that name one name the same. Empty: the store that each router is started with.
	HomeRegion string `json:"homeRegion,omitempty"`
}

// LimitSpec is one bucket.
type LimitSpec struct {
	// Kind is requests, input-tokens, output-tokens, total-tokens, concurrent-requests, money-per-day or
	// money-per-month.
	Kind string `json:"kind"`
	// PerMinute is the rate in units a minute, > 0. Of requests and tokens.
	PerMinute int64 `json:"perMinute,omitempty"`
	// Burst is the bucket's size in units; 0: one minute's worth. Of requests and tokens.
	Burst int64 `json:"burst,omitempty"`
	// Max is how many requests may be open at the same time, > 0. Of concurrent-requests.
	Max int64 `json:"max,omitempty"`
	// USD is the budget in dollars, by the token prices of RateCards, to six decimal places. A model that has
	// none costs what its work was measured to cost on a day before. Of money.
	USD float64 `json:"usd,omitempty"`
	// TimeZone is where days and months begin, e.g. "Europe/Berlin"; default UTC. Of money.
	TimeZone string `json:"timeZone,omitempty"`
	// WarnAt is when to warn, in percent of the budget, upwards; default 50, 80, 100. Of money.
	WarnAt []int `json:"warnAt,omitempty"`
}

// QuotaStoreSpec is a Redis that keeps the levels of organisations, and how the routers of all regions
// reach it. Secrets are named, never told.
type QuotaStoreSpec struct {
	// Addresses are host:port of the server, of members of the cluster or, with SentinelMaster, of Sentinels.
	Addresses []string `json:"addresses"`
	// SentinelMaster is the name by which Sentinels know the primary. Empty: there are no Sentinels.
	SentinelMaster string `json:"sentinelMaster,omitempty"`
	// Cluster: it is a Redis Cluster.
	Cluster bool `json:"cluster,omitempty"`
	// Username of Redis's access lists. Empty: the default user.
	Username string `json:"username,omitempty"`
	// PasswordFile or PasswordEnv, at most one, says where on the routers the password is. Neither: there is
	// none.
	PasswordFile string `json:"passwordFile,omitempty"`
	PasswordEnv  string `json:"passwordEnv,omitempty"`
	// TLS: connections are encrypted. CAFile, on the routers, has the authorities believed, empty: the
	// system's; CertFile and KeyFile what is shown, empty: nothing.
	TLS      bool   `json:"tls,omitempty"`
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
}

// The kinds of limit.
const (
	LimitRequests     = "requests"
	LimitInputTokens  = "input-tokens"
	LimitOutputTokens = "output-tokens"
	LimitTotalTokens  = "total-tokens"
	LimitConcurrent   = "concurrent-requests"
	LimitPerDay       = "money-per-day"
	LimitPerMonth     = "money-per-month"
)

// What Degraded says.
const (
	DegradedShare  = "share"
	DegradedOpen   = "open"
	DegradedClosed = "closed"
)

// What Overrun says.
const (
	OverrunFinish = "finish"
	OverrunCut    = "cut"
)

// Money says whether the limit is a budget.
func (l *LimitSpec) Money() bool { return l.Kind == LimitPerDay || l.Kind == LimitPerMonth }

// rate says whether the limit's units flow in over time.
func (l *LimitSpec) rate() bool {
	switch l.Kind {
	case LimitRequests, LimitInputTokens, LimitOutputTokens, LimitTotalTokens:
		return true
	}
	return false
}

// Micros is the budget in micro-dollars.
func (l *LimitSpec) Micros() int64 { return int64(math.Round(l.USD * 1e6)) }

// Calendar is the kind of window that a budget is for; empty for other kinds.
func (l *LimitSpec) Calendar() ratelimit.Calendar {
	switch l.Kind {
	case LimitPerDay:
		return ratelimit.Daily
	case LimitPerMonth:
		return ratelimit.Monthly
	}
	return ""
}

// LimitID names the bucket of a quota's limit, over all quotas. One in shadow is another bucket than the one
// that it becomes when it is enforced, which begins full.
func LimitID(quota string, s *QuotaSpec, l *LimitSpec) string {
	id := quota + "/" + l.Kind
	if s.Shadow {
		id += "~"
	}
	return id
}

// OrganizationOf is the organisation that a Tenant is of.
func OrganizationOf(tenant *Resource) string {
	if s, ok := tenant.Spec.(*TenantSpec); ok && s.Organization != "" {
		return s.Organization
	}
	return tenant.Metadata.Name
}

// keyDate is what a rotation puts behind the name of the key that it makes.
const keyDate = "-20060102-1504"

// KeyFamily is an API key's id without the date that a rotation has put behind it: the same for a key and
// those that take its place.
func KeyFamily(id string) string {
	if n := len(id) - len(keyDate); n > 0 {
		if _, err := time.Parse(keyDate, id[n:]); err == nil {
			return id[:n]
		}
	}
	return id
}

// Keys are those of a tenant's API keys that the quota is for.
func (s *QuotaSpec) Keys(of *TenantSpec) []APIKeySpec {
	var keys []APIKeySpec
	for _, k := range of.APIKeys {
		if KeyFamily(k.ID) == KeyFamily(s.Key) {
			keys = append(keys, k)
		}
	}
	return keys
}
