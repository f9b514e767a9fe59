package dataplane

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"anabranch/api/fleet"
)

const (
	// explainUsual and explainMost are how many records a page lists unless another number is asked
	// for, and at most.
	explainUsual = 50
	explainMost  = 500
)

// Explanations is a list of records, the newest first.
type Explanations struct {
	Items []*Record `json:"items"`
}

// filter says which records are wanted. Its zero fields want any.
type filter struct {
	tenant  fleet.TenantID
	cluster fleet.ClusterID // that was tried
	model   fleet.ModelID
	code    string
	// status is from low to high; both 0: any.
	low, high int
	limit     int
}

// newFilter reads the parameters tenant, cluster, model, code, status (as "503" or "5xx") and limit.
func newFilter(q url.Values) (filter, error) {
	f := filter{
		tenant: fleet.TenantID(q.Get("tenant")), cluster: fleet.ClusterID(q.Get("cluster")), model: fleet.ModelID(q.Get("model")),
		code: q.Get("code"), limit: explainUsual,
	}
	for name := range q {
		switch name {
		case "tenant", "cluster", "model", "code", "status", "limit":
		default:
			return f, fmt.Errorf("%.40q is no filter: use tenant, cluster, model, code, status or limit", name)
		}
	}
	if s := q.Get("status"); s != "" {
		if len(s) == 3 && s[1:] == "xx" && s[0] >= '1' && s[0] <= '5' {
			f.low = int(s[0]-'0') * 100
			f.high = f.low + 99
		} else if n, err := strconv.Atoi(s); err == nil && n >= 100 && n <= 999 {
			f.low, f.high = n, n
		} else {
			return f, fmt.Errorf("status is %.40q: give one such as 503, or 5xx", s)
		}
	}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > explainMost {
			return f, fmt.Errorf("limit is %.40q: give a number from 1 to %d", s, explainMost)
		}
		f.limit = n
	}
	return f, nil
}

func (f *filter) fits(r *Record) bool {
	switch {
	case f.tenant != "" && r.Tenant != f.tenant,
		f.model != "" && r.Model != f.model,
		f.code != "" && r.Code != f.code,
		f.low != 0 && (r.Status < f.low || r.Status > f.high):
		return false
	case f.cluster == "":
		return true
	}
	for i := range r.Attempts {
		if r.Attempts[i].Cluster == f.cluster {
			return true
		}
	}
	return false
}

// list is the newest records that a filter wants.
func (e *explanations) list(f *filter) []*Record {
	found := []*Record{}
	e.newest(func(r *Record) bool {
		if f.fits(r) {
			found = append(found, r)
		}
		return len(found) < f.limit
	})
	return found
}

// named are the newest records of a request by the router's name for it or the client's.
func (e *explanations) named(id string) []*Record {
	found := []*Record{}
	e.newest(func(r *Record) bool {
		if r.ID == id || r.ClientID == id {
			found = append(found, r)
		}
		return len(found) < explainUsual
	})
	return found
}

// serveExplanations lists the newest requests that the filters want.
func (r *Router) serveExplanations(w http.ResponseWriter, q *http.Request) {
	f, err := newFilter(q.URL.Query())
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	reply(w, http.StatusOK, Explanations{r.explain.list(&f)})
}

// serveExplain says what became of a request. A client may have given several the same name: then it
// lists them.
func (r *Router) serveExplain(w http.ResponseWriter, q *http.Request) {
	switch found := r.explain.named(q.PathValue("id")); len(found) {
	case 0:
		reply(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf("no request of this name is remembered; the newest %d are", explainKept)})
	case 1:
		reply(w, http.StatusOK, found[0])
	default:
		reply(w, http.StatusOK, Explanations{found})
	}
}
