package rest

import (
	"crypto/rand"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"anabranch/api"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/series"
)

// Server answers HTTP. It starts no goroutine; what is kept for charts, [Server.Run] keeps.
type Server struct {
	o    Options
	echo *echo.Echo
	// denials and refusals bound what is audited of each actor.
	denials, refusals *limiter
	// reads and writes pace callers, attempts those who try tokens.
	reads, writes, attempts *rate
	// shown are ID tokens that were good.
	shown shownTokens
	// authenticators are asked in this order who sends a request.
	authenticators []authenticator
	fleet          fleetCache
	live           liveFeed
	limits         usageFeed
	surveys        surveys
	seen           seen
	kept           series.Store
	// run tells this run of the node from others, in ids of what only it counts.
	run     string
	gzipped atomic.Int64
	metrics *metrics
	changes tableChanges
	watches atomic.Int64
	tails   places
	// exchanging holds a place for each sign-in that the OpenID provider is asked about.
	exchanging chan struct{}
	// codes sign browsers in.
	codes codes
	// reckoning holds a place for each question about costs that is being answered.
	reckoning *turns
	// operations are those of the document, by method and path.
	operations map[string]api.Operation
	// archiving while a snapshot is being written.
	archiving atomic.Bool
	// simulating is held by the one dry run that simulates.
	simulating sync.Mutex
	// explaining holds a place for each question about the plan that is being answered.
	explaining *turns
	draining   chan struct{}
	drain      sync.Once
}

// New makes a server; its error names an option.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		o: o.withDefaults(), draining: make(chan struct{}), exchanging: make(chan struct{}, maxExchanges),
		explaining: newTurns(maxExplaining, "This node answers as many questions about the plan as it can."),
		reckoning:  newTurns(maxReckonings, "This node answers as many questions about costs as it can."),
	}
	s.run = rand.Text()[:8]
	s.authenticators = []authenticator{byToken, s.bySignIn}
	s.reads = newRate(s.o.Now, s.o.ReadRate, readBurst*s.o.ReadRate)
	s.writes = newRate(s.o.Now, s.o.WriteRate, writeBurst*s.o.WriteRate)
	s.attempts = newRate(s.o.Now, attemptRate, attemptBurst)
	s.metrics = newMetrics(o.Registerer)
	s.gaugeProposals()
	s.denials, s.refusals = newLimiter(s.o.Now, s.metrics.unrecorded), newLimiter(s.o.Now, s.metrics.unrecorded)
	var err error
	if s.operations, err = documentedOperations(); err != nil {
		return nil, err
	}
	s.echo = s.routes()
	return s, nil
}

// Handler serves everything.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Drain ends all watches and makes /readyz say no, so that the HTTP server around can shut down:
// register it with http.Server.RegisterOnShutdown. It may be called more than once.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// HTTPServer gives an http.Server with the limits that this package is made for. Watches set their
// own deadlines; Shutdown ends them by [Server.Drain].
func (s *Server) HTTPServer() *http.Server {
	h := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       RequestTimeout,
		WriteTimeout:      2 * RequestTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	h.RegisterOnShutdown(s.Drain)
	return h
}

// routes is every path that is served, and who may go there.
func (s *Server) routes() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.answerError
	e.Use(s.observed, s.recovered, secured, allowed, identified, s.strict)

	e.GET("/healthz", s.healthz)
	e.GET("/readyz", s.readyz)
	e.GET("/metrics", s.prometheus)
	e.GET(pathOpenAPI, openAPI, timed)
	e.GET("/v1/signin", s.signInWays, timed)
	e.POST("/v1/signin", s.signIn, timed)
	s.sessionRoutes(e)

	for _, kind := range policy.Kinds() {
		all, one := "/v1/"+policy.Plural(kind), "/v1/"+policy.Plural(kind)+"/:name"
		r := resources{s, kind}
		e.GET(all, r.listOrWatch, s.may(read, filtered))
		e.POST(all, r.create, s.may(write, within), timed, s.keyed)
		e.GET(one, r.get, s.may(read, filtered), timed)
		e.PUT(one, r.replace, s.may(write, within), timed, s.keyed)
		e.PATCH(one, r.patch, s.may(write, within), timed, s.keyed)
		e.DELETE(one, r.remove, s.may(write, within), timed, s.keyed)
		e.GET(one+"/history", r.history, s.may(read, filtered), timed)
		e.GET(one+"/history/:revision", r.revision, s.may(read, filtered), timed)
		e.GET(one+"/diff", r.diff, s.may(read, filtered), timed)
		e.POST(one+"/rollback", r.rollback, s.may(write, within), timed, s.keyed)
	}
	e.GET("/v1/events", s.events, s.may(read, filtered))
	e.GET("/v1/watch", s.watchAll, s.may(read, filtered))
	e.GET("/v1/whoami", s.whoami, s.may(read, anyScope), timed)
	e.GET("/v1/capabilities", s.capabilities, s.may(read, anyScope), timed)
	e.GET("/v1/tokens", s.listTokens, s.may(grant), timed)
	e.POST("/v1/tokens", s.createToken, s.may(grant), timed, s.keyed)
	e.GET("/v1/tokens/:name", s.getToken, s.may(grant), timed)
	e.DELETE("/v1/tokens/:name", s.revokeToken, s.may(grant), timed, s.keyed)
	e.POST("/v1/tokens/:name/rotate", s.rotateToken, s.may(grant), timed, s.keyed)
	e.GET("/v1/status", s.status, s.may(read, filtered), timed)
	e.GET("/v1/controlplane/members", s.members, s.may(read, anyScope), timed)
	e.GET("/v1/controlplane/snapshot", s.snapshot, s.may(keep))
	e.POST("/v1/controlplane/members", s.addMember, s.may(manage), timed)
	e.DELETE("/v1/controlplane/members/:name", s.removeMember, s.may(manage), timed)
	e.POST("/v1/controlplane/transfer", s.transfer, s.may(manage), timed)
	e.GET("/v1/audit", s.audit, s.may(read, filtered), timed)
	e.GET("/v1/audit/export", s.exportAudit, s.may(read))
	e.GET("/v1/audit/watch", s.watchAudit, s.may(read))
	e.GET("/v1/table", s.table, s.may(read, filtered), timed)
	e.GET("/v1/tables", s.tables, s.may(read, filtered), timed)
	e.GET("/v1/tables/:revision", s.oldTable, s.may(read, filtered), timed)
	e.GET("/v1/tables/:revision/diff", s.tableDiff, s.may(read, filtered), timed)
	s.changeRoutes(e)
	s.emergencyRoutes(e)
	s.proposalRoutes(e)
	s.drillRoutes(e)
	s.planRoutes(e)
	s.adviceRoutes(e)
	e.GET("/v1/routers", s.routers, s.may(read, anyScope), timed)
	e.GET("/v1/tenants/:name/usage", s.usage, s.may(read, filtered), timed)
	e.GET("/v1/usage", s.usages, s.may(read, filtered), timed)
	e.GET("/v1/costs", s.costs, s.may(read, filtered), timed)
	e.GET("/v1/costs/events", s.costEvents, s.may(read), timed)
	e.GET("/v1/costs/bills", s.bills, s.may(read), timed)
	e.GET("/v1/prices", s.prices, s.may(read, anyScope), timed)
	e.GET("/v1/sources", s.sources, s.may(read, anyScope), timed)
	e.GET("/v1/clusters/:name/endpoints", s.endpointsOf, s.may(read, anyScope), timed)
	e.GET("/v1/explain/:id", s.explain, s.may(read, filtered), timed)
	e.GET("/v1/explain/:id/now", s.explainNow, s.may(read, filtered), timed)
	e.GET("/v1/decisions", s.decisions, s.may(read, filtered))
	e.GET("/v1/series", s.series, s.may(read, anyScope), timed)
	e.GET("/v1/fleet", s.getFleet, s.may(read, anyScope), timed)
	e.GET("/v1/fleet/watch", s.watchFleet, s.may(read, anyScope))
	e.GET("/v1/*", func(echo.Context) error { return echo.ErrNotFound }) // not the console

	e.GET("/*", s.console, middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1024}))
	return e
}

// pathOpenAPI is where the document is.
const pathOpenAPI = "/v1/openapi.yaml"

func openAPI(c echo.Context) error {
	c.Response().Header().Set(echo.HeaderCacheControl, "no-cache")
	return c.Blob(http.StatusOK, "application/yaml", api.OpenAPI)
}
