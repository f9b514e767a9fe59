package brownout

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// heat is how long half of what was asked for is remembered.
	heat = 10 * time.Second
	// slack is how many times what was let in may come to be let in: what is held to exactly what it had could never
	// find out that there is room again.
	slack = 1.1
	// mostTenants is how many tenants are told apart; those beyond go by the parts of nobody, which is all.
	mostTenants = 4096
	// leastWork is what is too little to be remembered.
	leastWork = 1e-3
)

// Claim is what a tenant asks for of what is to be divided.
type Claim struct {
	// Work that it asks for, and Weight by which it is entitled to it. A weight that is not above 0 counts as 1.
	Work, Weight float64
}

// Divide says for each claim which part of it is met, 0..1: none gets more than it asks for, and those that would get
// less have shares by weight (max-min fairness). What all get together is room, or all that is asked for.
func Divide(claims []Claim, room float64) []float64 {
	parts := make([]float64, len(claims))
	order := make([]int, len(claims))
	weights := 0.0
	for i, c := range claims {
		order[i] = i
		weights += weight(c)
	}
	// Those that ask for least by their weight are met first; what they leave raises the level of the others.
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(claims[a].Work/weight(claims[a]), claims[b].Work/weight(claims[b]))
	})
	room = max(room, 0)
	for _, i := range order {
		w := weight(claims[i])
		gets := min(claims[i].Work, room*w/weights)
		parts[i] = 1
		if claims[i].Work > 0 {
			parts[i] = min(gets/claims[i].Work, 1)
		}
		room -= max(gets, 0)
		weights -= w
	}
	return parts
}

func weight(c Claim) float64 {
	if c.Weight > 0 && !math.IsInf(c.Weight, 0) {
		return c.Weight
	}
	return 1
}

// account is what one tenant asked for at one tier, and what of that was let in, both fading.
type account struct{ asked, taken float64 }

// who is a tenant at a tier.
type who struct {
	tenant   string
	priority int32
}

// Shares remember what tenants asked for of a model and what of it was let in, and tell what part of it each may
// have. The zero Shares remember nothing. They are not safe for concurrent use.
type Shares struct {
	at  time.Time
	all map[who]account
}

// Asked counts work that a tenant asks for at the priority of a tier.
func (s *Shares) Asked(tenant string, priority int32, work float64) {
	s.count(tenant, priority, work, 0)
}

// Taken counts work that was let in.
func (s *Shares) Taken(tenant string, priority int32, work float64) {
	s.count(tenant, priority, 0, work)
}

func (s *Shares) count(tenant string, priority int32, asked, taken float64) {
	if s.all == nil {
		s.all = map[who]account{}
	}
	w := who{tenant, priority}
	a, known := s.all[w]
	if !known && len(s.all) >= mostTenants {
		return
	}
	s.all[w] = account{a.asked + asked, a.taken + taken}
}

// Parts tells which part of its requests each tenant may have at a step, by its name and the priority of its tier;
// one that is not told of may have all. What was counted fades until now. Weights of tenants; one that is missing has 1.
func (s *Shares) Parts(step Step, c Config, weights map[string]float64, now time.Time) map[string]map[int32]float64 {
	s.fade(now)
	byTier, taken := map[int32][]who{}, 0.0
	for w, a := range s.all {
		taken += a.taken
		byTier[w.priority] = append(byTier[w.priority], w)
	}
	out := map[string]map[int32]float64{}
	for priority, list := range byTier {
		room := 0.0
		switch step.Treats(priority) {
		case Floor:
			room = c.WithDefaults().Floor * taken
		case Fair:
			for _, w := range list {
				room += slack * s.all[w].taken
			}
		default:
			continue
		}
		slices.SortFunc(list, func(a, b who) int { return cmp.Compare(a.tenant, b.tenant) })
		claims := make([]Claim, len(list))
		for i, w := range list {
			claims[i] = Claim{s.all[w].asked, weights[w.tenant]}
		}
		for i, part := range Divide(claims, room) {
			if part < 1 {
				if out[list[i].tenant] == nil {
					out[list[i].tenant] = map[int32]float64{}
				}
				out[list[i].tenant][priority] = part
			}
		}
	}
	return out
}

// Forget drops all that is remembered.
func (s *Shares) Forget() { *s = Shares{} }

func (s *Shares) fade(now time.Time) {
	after := now.Sub(s.at)
	if s.at.IsZero() || after < 0 {
		s.at = now
		return
	}
	s.at = now
	left := math.Exp2(-after.Seconds() / heat.Seconds())
	for w, a := range s.all {
		if a = (account{a.asked * left, a.taken * left}); a.asked < leastWork && a.taken < leastWork {
			delete(s.all, w)
			continue
		}
		s.all[w] = a
	}
}
