package rest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"anabranch/api/fleet"
	"anabranch/controlplane/plan"
	"anabranch/controlplane/policy"
	"anabranch/failover/shift"
)

// Advisor keeps advice on how many replicas models need. Its answers are shared and not written to.
type Advisor interface {
	// Advise advises on a model. Survive is none, cluster or region; empty: as policies say. Peak: for the largest
	// demand of the last hour. False: the configuration in force has no such model. The error is plan.ErrTooMuch.
	Advise(model fleet.ModelID, survive string, peak bool) (plan.Advice, bool, error)
	// Cold is what is measured of a model's prefix caches; false: nothing is.
	Cold(fleet.ModelID) (shift.Cold, bool)
}

func (s *Server) adviceRoutes(e *echo.Echo) {
	e.GET("/v1/models/:name/capacity", s.capacity, s.may(read, anyScope), timed)
	e.GET("/v1/plan/survival", s.survival, s.may(read, filtered), timed)
}

// choice reads a parameter that takes some words; empty where it is not given.
func choice(c echo.Context, name string, words ...string) (string, error) {
	value := c.QueryParam(name)
	if value != "" && !slices.Contains(words, value) {
		return "", newProblem(codeInvalidRequest, fmt.Sprintf("%s is %.40q; use one of %s.", name, value, strings.Join(words, ", ")))
	}
	return value, nil
}

// What the demand of a question about capacity may be.
const (
	demandNow  = "now"
	demandPeak = "peak"
)

// capacity advises on the replicas of a model, by what this node has heard.
func (s *Server) capacity(c echo.Context) error {
	survive, err := choice(c, "survive", policy.SurviveNone, policy.SurviveCluster, policy.SurviveRegion)
	if err != nil {
		return err
	}
	demand, err := choice(c, "demand", demandNow, demandPeak)
	if err != nil {
		return err
	}
	view, model, cluster := s.localView(c), nameOf(c), c.QueryParam("cluster")
	if _, known := view.Get(policy.KindModel, model); !known {
		return notFound(policy.KindModel, model)
	}
	if s.o.Advisor == nil {
		return newProblem(codeBusy, "This node does not advise; ask another.")
	}
	a, known, err := s.o.Advisor.Advise(fleet.ModelID(model), survive, demand == demandPeak)
	switch {
	case errors.Is(err, plan.ErrTooMuch):
		return newProblem(codeInvalidRequest, "The fleet is too large to try each loss: ask with survive=none.")
	case err != nil:
		return err
	case !known: // written, and not in force yet
		return notFound(policy.KindModel, model)
	}
	if cluster != "" {
		at := slices.IndexFunc(a.Clusters, func(x plan.ClusterAdvice) bool { return string(x.Cluster) == cluster })
		if at < 0 {
			return noAdvice(a, cluster)
		}
		a.Clusters = a.Clusters[at : at+1]
	}
	return c.JSON(http.StatusOK, a)
}

// noAdvice names what could be asked for instead of a cluster.
func noAdvice(a plan.Advice, cluster string) error {
	var names []string
	for _, x := range a.Clusters {
		names = append(names, string(x.Cluster))
	}
	p := newProblem(codeInvalidRequest, "There is no advice for this cluster.")
	p.Errors = []policy.Problem{{
		Field:  "cluster",
		Reason: fmt.Sprintf("%.64q does not serve model %.64s, is not ours to scale, or nobody has counted its endpoints", cluster, a.Model),
		Fix:    "use one of " + strings.Join(names, ", ") + ", or leave it out",
	}}
	if len(names) == 0 {
		p.Errors[0].Fix = "leave it out; no cluster serves the model whose endpoints are known"
	}
	return p
}

// survival tells what would be left after each loss.
func (s *Server) survival(c echo.Context) error {
	pairs, err := flagOr(c, "pairs", false)
	if err != nil {
		return err
	}
	most, err := intOf(c, "most", 1, mostLosses, 0)
	if err != nil {
		return err
	}
	view, model := s.localView(c), c.QueryParam("model")
	if _, known := view.Get(policy.KindModel, model); model != "" && !known {
		p := newProblem(codeInvalidRequest, "There is no such model.")
		p.Errors = []policy.Problem{{Field: "model", Reason: fmt.Sprintf("%.64q is not known", model), Fix: "use one of " + strings.Join(namesIn(view.List(policy.KindModel)), ", ") + ", or leave it out"}}
		return p
	}
	answer, err := s.surveys.answer(surveyed{fleet.ModelID(model), pairs, most}, s.o.Now, func(of surveyed) (plan.Survival, error) {
		in, done, err := s.planning(c.Request().Context(), view)
		if err != nil {
			return plan.Survival{}, err
		}
		defer done()
		o := plan.SurvivalOptions{Model: of.model, Pairs: of.pairs, Most: of.most}
		if s.o.Advisor != nil {
			o.Cold = s.o.Advisor.Cold
		}
		return plan.Survive(in, o)
	})
	if errors.Is(err, plan.ErrTooMuch) {
		return newProblem(codeInvalidRequest, "The fleet is too large to try each loss for all models: give a model, or most, and no pairs.")
	} else if err != nil {
		return err
	}
	answer.Rows = slices.Clone(answer.Rows) // others have the same answer
	scope := identity(c).Scope
	for i := range answer.Rows {
		answer.Rows[i].Hide(func(t fleet.TenantID) bool { return !scope.Seen(string(t)) })
	}
	answer.At = answer.At.UTC()
	return c.JSON(http.StatusOK, answer)
}
