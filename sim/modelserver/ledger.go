package modelserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of what an endpoint remembers of its requests.
const (
	maxRecords = 1024
	maxTenants = 256
	maxID      = 128
)

// Headers that tell who asks. The first two are set by routers for gateways and model servers.
const (
	fairnessHeader    = "x-gateway-inference-fairness-id"
	fairnessHeaderLLM = "x-llm-d-inference-fairness-id"
	canaryHeader      = "x-anabranch-canary"
	requestHeader     = "x-request-id"
)

// Outcome is how a request ended.
type Outcome string

// The outcomes. The empty one means still in flight.
const (
	Completed Outcome = "completed" // answered in full
	Aborted   Outcome = "aborted"   // the client left first
	Rejected  Outcome = "rejected"  // answered in the 400s
	Failed    Outcome = "failed"    // answered in the 500s, or cut
)

// Record is one request that reached an endpoint.
type Record struct {
	RequestID string    `json:"requestId"`
	Tenant    string    `json:"tenant"`
	Model     string    `json:"model"`
	Canary    bool      `json:"canary"`
	At        time.Time `json:"at"`
	Outcome   Outcome   `json:"outcome"`
}

// Counts sum up an endpoint's requests: Received is the sum of all others but Canaries, which are
// counted there too.
type Counts struct {
	Received  uint64 `json:"received"`
	Completed uint64 `json:"completed"`
	Aborted   uint64 `json:"aborted"`
	Rejected  uint64 `json:"rejected"`
	Failed    uint64 `json:"failed"`
	InFlight  uint64 `json:"inFlight"`
	Canaries  uint64 `json:"canaries"`
}

// ledger is the account of one endpoint.
type ledger struct {
	mu      sync.Mutex // guards all
	counts  Counts
	tenants map[string]uint64
	ring    [maxRecords]Record
	written uint64
}

// begin notes a request; end must follow with what begin returned.
func (l *ledger) begin(h http.Header, model string, now time.Time) (slot uint64) {
	rec := Record{
		RequestID: clip(h.Get(requestHeader)), Tenant: tenantOf(h), Model: clip(model),
		Canary: h.Get(canaryHeader) != "", At: now,
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Received++
	l.counts.InFlight++
	if rec.Canary {
		l.counts.Canaries++
	}
	if l.tenants == nil {
		l.tenants = map[string]uint64{}
	}
	if _, known := l.tenants[rec.Tenant]; known || len(l.tenants) < maxTenants {
		l.tenants[rec.Tenant]++
	} else {
		l.tenants["(others)"]++
	}
	slot = l.written
	l.ring[slot%maxRecords] = rec
	l.written++
	return slot
}

func (l *ledger) end(slot uint64, o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.InFlight--
	switch o {
	case Completed:
		l.counts.Completed++
	case Aborted:
		l.counts.Aborted++
	case Rejected:
		l.counts.Rejected++
	case Failed:
		l.counts.Failed++
	}
	if l.written-slot <= maxRecords {
		l.ring[slot%maxRecords].Outcome = o
	}
}

// read gives the counts, the tenants and the last n records, newest first.
func (l *ledger) read(n int) (Counts, map[string]uint64, []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tenants := make(map[string]uint64, len(l.tenants))
	for t, c := range l.tenants {
		tenants[t] = c
	}
	n = min(n, maxRecords, int(min(l.written, maxRecords)))
	records := make([]Record, 0, n)
	for i := range uint64(n) {
		records = append(records, l.ring[(l.written-1-i)%maxRecords])
	}
	return l.counts, tenants, records
}

// tenantOf is the tenant in the fairness id, which may be subdivided after a slash.
func tenantOf(h http.Header) string {
	id := h.Get(fairnessHeader)
	if id == "" {
		id = h.Get(fairnessHeaderLLM)
	}
	tenant, _, _ := strings.Cut(id, "/")
	return clip(tenant)
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxID)], "") }
