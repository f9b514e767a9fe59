package policy

import (
	"slices"

	"anabranch/api/fleet"
)

// The values that a field takes when its author says nothing. Each is explained at its field.
const (
	DefaultRTTMs              = 150.0
	DefaultClusterType        = TypeEndpoints
	DefaultPurchase           = "on-demand"
	DefaultPriorWork          = 5000.0 // work units per second and endpoint
	DefaultOutputWeight       = 6.0
	DefaultTier               = TierStandard
	DefaultDiscoveryPort      = 8000
	DefaultScheme             = "http"
	DefaultCollectMode        = CollectAuto
	DefaultCollectIntervalMs  = 2000
	DefaultCollectTimeoutMs   = 1000
	DefaultHeaderType         = HeaderExact
	DefaultTTFTObjectiveMs    = 2000.0
	DefaultSpill              = SpillAllowed
	DefaultPickMode           = "predicted-ttft"
	DefaultRequestTimeoutMs   = 600_000
	DefaultFirstByteFloorMs   = 5000
	DefaultFirstByteDeadline  = 60_000 // ms
	DefaultQueueMs            = 10_000
	DefaultPrefixLength       = 4096
	DefaultConcurrency        = 32
	DefaultHedgePercent       = 2.0
	DefaultHedgeSaturation    = 0.7
	DefaultDegraded           = DegradedShare
	DefaultOverrun            = OverrunFinish
	DefaultTimeZone           = "UTC"
	DefaultTimeScale          = 1.0
	DefaultConfirmMs          = 3000
	DefaultCoolDownMs         = 300_000
	DefaultRecoveryMs         = 120_000
	DefaultRampStepMs         = 60_000
	DefaultConnectFailures    = 3
	DefaultFailureRatio       = 0.2
	DefaultMinRequests        = 20
	DefaultWindowMs           = 2000
	DefaultReprobeMs          = 1000
	DefaultReprobeMaxMs       = 60_000
	DefaultCanaryBake         = 60  // seconds
	DefaultRegionBake         = 120 // seconds
	DefaultAckShare           = 0.8
	DefaultRolloutTimeout     = 300 // seconds
	DefaultApprovals          = 1
	DefaultProposalExpiry     = 86_400 // seconds
	DefaultErrorIncrease      = 0.02
	DefaultErrorRequests      = 50
	defaultAuthType           = AuthBearer
	defaultRegionWishWeight   = 1.0
	defaultRegionWishMaxShare = 1.0
)

// defaultWarnAt is in percent of a budget.
var defaultWarnAt = []int{50, 80, 100}

// Defaults fills the fields of the spec that its author left empty. It changes r.Spec in place and
// leaves r.Written alone; applying it twice is the same as once.
func Defaults(r *Resource) {
	switch s := r.Spec.(type) {
	case *RegionSpec:
		fill(&s.Zone, r.Metadata.Name)
	case *ClusterSpec:
		s.defaults()
	case *ModelSpec:
		fill(&s.OutputWeight, DefaultOutputWeight)
	case *TenantSpec:
		fill(&s.Tier, DefaultTier)
		fill(&s.Organization, r.Metadata.Name)
	case *TrafficPolicySpec:
		s.defaults(r.Metadata.Name)
	case *QuotaSpec:
		s.defaults()
	case *RateCardSpec:
		for i := range s.GPUs {
			fill(&s.GPUs[i].Purchase, DefaultPurchase)
		}
	case *SafetyRuleSpec:
		s.defaults()
	case *DrillPlanSpec:
		s.defaults()
	}
}

func (s *QuotaSpec) defaults() {
	fill(&s.Degraded, DefaultDegraded)
	fill(&s.Overrun, DefaultOverrun)
	for i := range s.Limits {
		l := &s.Limits[i]
		if !l.Money() && l.Kind != LimitConcurrent {
			fill(&l.Burst, l.PerMinute)
		}
		if l.Money() {
			fill(&l.TimeZone, DefaultTimeZone)
			if len(l.WarnAt) == 0 {
				l.WarnAt = slices.Clone(defaultWarnAt)
			}
		}
	}
}

func (s *ClusterSpec) defaults() {
	fill(&s.Type, DefaultClusterType)
	fill(&s.PriorWork, DefaultPriorWork*float64(max(1, len(s.Endpoints))))
	if s.Auth != nil {
		fill(&s.Auth.Type, defaultAuthType)
	}
	if d := s.Discovery; d != nil {
		fill(&d.Scheme, DefaultScheme)
		if d.Kind != DiscoverSRV {
			fill(&d.Port, DefaultDiscoveryPort)
		}
	}
	if s.Collect != nil {
		*s.Collect = s.Collect.WithDefaults()
	}
	for i := range s.GPUs {
		fill(&s.GPUs[i].Purchase, DefaultPurchase)
	}
}

// WithDefaults gives a copy whose zero fields hold the defaults; a nil spec is all defaults.
func (c *CollectSpec) WithDefaults() CollectSpec {
	var d CollectSpec
	if c != nil {
		d = *c
	}
	fill(&d.Mode, DefaultCollectMode)
	fill(&d.IntervalMs, DefaultCollectIntervalMs)
	fill(&d.TimeoutMs, DefaultCollectTimeoutMs)
	return d
}

func (s *TrafficPolicySpec) defaults(name string) {
	if s.steers() {
		fill(&s.Class, name)
	}
	fill(&s.Class, string(fleet.DefaultClass))
	for i := range s.Match {
		for j := range s.Match[i].Headers {
			fill(&s.Match[i].Headers[j].Type, DefaultHeaderType)
		}
	}
	fill(&s.TTFTObjectiveMs, DefaultTTFTObjectiveMs)
	if preference, known := preferenceOf(s.Objective); known {
		fill(&s.CostPreference, preference)
	}
	fill(&s.Spill, DefaultSpill)
	fill(&s.PickMode, DefaultPickMode)
	fill(&s.RequestTimeoutMs, DefaultRequestTimeoutMs)
	fill(&s.PrefixLength, DefaultPrefixLength)
	fill(&s.ConcurrencyThreshold, DefaultConcurrency)
	fill(&s.FirstByteFloorMs, DefaultFirstByteFloorMs)
	fill(&s.FirstByteDeadlineMs, max(DefaultFirstByteDeadline, s.FirstByteFloorMs))
	fill(&s.QueueMs, DefaultQueueMs)
	if h := s.Hedge; h != nil {
		fillPointer(&h.Enabled, true)
		fill(&h.MaxSharePercent, DefaultHedgePercent)
		fill(&h.MaxSaturation, DefaultHedgeSaturation)
	}
	if b := s.Brownout; b != nil {
		c := b.Config()
		fillPointer(&b.Enabled, true)
		fill(&b.EnterAt, c.EnterAt)
		fill(&b.LeaveAt, c.LeaveAt)
		fill(&b.EnterMs, c.Enter.Milliseconds())
		fill(&b.LeaveMs, c.Leave.Milliseconds())
		fill(&b.BatchCeiling, c.BatchCeiling)
		fill(&b.BatchTokens, c.BatchTokens)
		fill(&b.FloorPercent, 100*c.Floor)
	}
	for i := range s.Regions {
		fillPointer(&s.Regions[i].Weight, defaultRegionWishWeight)
		fillPointer(&s.Regions[i].MaxShare, defaultRegionWishMaxShare)
	}
	f := s.Failover.WithDefaults()
	s.Failover = &f
}

// WithDefaults gives a copy whose zero fields hold the defaults; a nil spec is all defaults.
func (f *FailoverSpec) WithDefaults() FailoverSpec {
	var d FailoverSpec
	if f != nil {
		d = *f
	}
	fill(&d.TimeScale, DefaultTimeScale)
	fill(&d.ConfirmMs, DefaultConfirmMs)
	fill(&d.CoolDownMs, DefaultCoolDownMs)
	fill(&d.RecoveryMs, DefaultRecoveryMs)
	fill(&d.RampStepMs, DefaultRampStepMs)
	fill(&d.ConnectFailures, DefaultConnectFailures)
	fill(&d.FailureRatio, DefaultFailureRatio)
	fill(&d.MinRequests, DefaultMinRequests)
	fill(&d.WindowMs, DefaultWindowMs)
	fill(&d.ReprobeMs, DefaultReprobeMs)
	fill(&d.ReprobeMaxMs, max(DefaultReprobeMaxMs, d.ReprobeMs))
	return d
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func fillPointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
