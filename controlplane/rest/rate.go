package rest

import (
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"anabranch/controlplane/access"
)

// Rates that hold when [Options] say nothing: what one caller may ask of one node in a second, and at
// once. The console and a client that waits for something ask a few times a second; a folder of
// documents is applied as fast as the log takes it, and then at the rate.
const (
	DefaultReadRate  = 200.0
	DefaultWriteRate = 20.0
	readBurst        = 2 // seconds' worth
	writeBurst       = 5
)

// Attempts with tokens that nobody has: twenty at once and one a second from one address. The addresses
// of one IPv6 /64 count as one, since one host has them all.
const (
	attemptRate  = 1.0
	attemptBurst = 20.0
)

// maxRated is for how many names a rate remembers anything; the rest share what is left.
const maxRated = 10_000

// rate is a token bucket for each of some names, in bounded memory. Nil allows everything.
type rate struct {
	now              func() time.Time
	perSecond, burst float64
	most             int

	mu      sync.Mutex // guards buckets
	buckets map[string]allowance
}

// allowance is what is left for a name, as of a time.
type allowance struct {
	level float64
	at    time.Time
}

// newRate makes a rate; nil if perSecond is negative.
func newRate(now func() time.Time, perSecond, burst float64) *rate {
	if perSecond < 0 {
		return nil
	}
	return &rate{now: now, perSecond: perSecond, burst: max(1, burst), most: maxRated, buckets: map[string]allowance{}}
}

// take uses one up. It is how long to wait for another; 0: it was there.
func (r *rate) take(name string) time.Duration { return r.use(name, 1) }

// wait is how long until there is one; 0: there is, and it stays.
func (r *rate) wait(name string) time.Duration { return r.use(name, 0) }

func (r *rate) use(name string, n float64) time.Duration {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	b, known := r.buckets[name]
	if !known && len(r.buckets) >= r.most {
		r.forget(now)
		if len(r.buckets) >= r.most {
			name = "" // everybody who comes too late shares one
			b, known = r.buckets[name]
		}
	}
	if !known {
		b = allowance{level: r.burst, at: now}
	}
	b = r.filled(b, now)
	var wait time.Duration
	if b.level < 1 {
		wait = max(1, time.Duration(math.Ceil((1-b.level)/r.perSecond*float64(time.Second))))
	} else {
		b.level -= n
	}
	r.buckets[name] = b
	return wait
}

func (r *rate) filled(b allowance, now time.Time) allowance {
	b.level = min(r.burst, b.level+max(0, now.Sub(b.at).Seconds()*r.perSecond))
	b.at = now
	return b
}

// forget drops what is full again, which is as if it had never been.
func (r *rate) forget(now time.Time) {
	for name, b := range r.buckets {
		if r.filled(b, now).level >= r.burst {
			delete(r.buckets, name)
		}
	}
}

// paced holds a caller to the rates of reads and of changes.
func (s *Server) paced(c echo.Context, id *access.Identity) error {
	r, what := s.reads, "reads"
	if c.Request().Method != http.MethodGet {
		r, what = s.writes, "changes"
	}
	if wait := r.take(string(id.Kind) + " " + id.Name); wait > 0 {
		return problemTooMany("This node takes no more "+what+" of one caller in a second; slow down, or spread them.", wait).because("limited")
	}
	return nil
}

func problemTooMany(detail string, wait time.Duration) *Problem {
	return newProblem(codeTooMany, detail).after(max(time.Second, wait.Truncate(time.Second)+time.Second))
}

// address is where a request comes from, as far as it is told apart: what headers say of it anybody can
// write.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
