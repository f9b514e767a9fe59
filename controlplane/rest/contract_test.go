package rest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"anabranch/controlplane/policy"
	"anabranch/controlplane/state"
	"anabranch/controlplane/state/statepb"
)

// hostile are strings that nobody means well with.
var hostile = []string{
	"", " ", "\x00", "\n", "'", `"`, "\\", "..", "../../etc/passwd", "%2F", "%", "%zz", "*", "-", "--", "0", "-1", "1e309", "NaN", "null", "true",
	"\u202eabc", "\ufeff", "é", "e\u0301", "🦆", "\xff\xfe", "ａ", "<script>", "${jndi:x}", "a/b", "a b", "A", "a=b=c", "=", "spec.", "spec.x.y.z",
	"{}", "[]", strings.Repeat("a", 129), strings.Repeat("é", 300), strings.Repeat("x", 5000), "9223372036854775808", "18446744073709551616", "1.5",
	"0001-01-01T00:00:00Z", "eyJhIjoiYSJ9", "eyJiIjoxfQ", "W/\"1\"", `"1","2"`, "*,*", "http://", "http://[::1", "https://x:99999", "tcp://",
}

// numbers that are at an edge or beyond it.
var numbers = []string{"0", "-0", "1", "-1", "0.5", "1e-320", "1e308", "1e309", "-1e400", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e2", "2147483648", "0.1e1"}

// pool are names that resources may have, so that references meet.
var pool = []string{"us", "eu", "m", "n", "m/x", "c1", "c2", "acme", "p1", "q", "viewer"}

// contractFuzz makes requests from the document.
type contractFuzz struct {
	*rand.Rand
	d    *double
	good map[policy.Kind][]node
}

// newContractFuzz seeds a node with all good documents that can stand beside each other.
func newContractFuzz(t *testing.T, d *double, seed uint64) *contractFuzz {
	t.Helper()
	f := &contractFuzz{rand.New(rand.NewPCG(seed, 1)), d, map[policy.Kind][]node{}}
	files, err := filepath.Glob("../policy/testdata/good/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no good documents: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := policy.ParseAll(text)
		for _, r := range all {
			v, err := readBody(policy.Canonical(r))
			if err != nil {
				t.Fatal(err)
			}
			v.(node)["apiVersion"], v.(node)["kind"] = policy.APIVersion, string(r.Kind)
			v.(node)["metadata"] = node{"name": r.Metadata.Name}
			f.good[r.Kind] = append(f.good[r.Kind], v.(node))
		}
	}
	// What they refer to and nobody describes.
	for _, v := range slices.Concat(f.good[policy.KindCluster], f.good[policy.KindQuota]) {
		spec, _ := v["spec"].(node)
		for kind, field := range map[policy.Kind]string{policy.KindRegion: "region", policy.KindTenant: "tenant", policy.KindModel: "model"} {
			if name, ok := spec[field].(string); ok {
				f.good[kind] = append(f.good[kind], node{"apiVersion": policy.APIVersion, "kind": string(kind), "metadata": node{"name": name}, "spec": node{}})
			}
		}
		models, _ := spec["models"].([]any)
		for _, m := range models {
			f.good[policy.KindModel] = append(f.good[policy.KindModel], node{"apiVersion": policy.APIVersion, "kind": "Model", "metadata": node{"name": m}, "spec": node{}})
		}
	}
	for range policy.Kinds() { // what is referred to may come later
		for _, k := range policy.Kinds() {
			for _, v := range f.good[k] {
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				r := httptest.NewRequest(http.MethodPost, "/v1/"+policy.Plural(k), bytes.NewReader(b))
				r.Header.Set("Authorization", "Bearer secret-admin")
				d.server.Handler().ServeHTTP(httptest.NewRecorder(), r)
			}
		}
	}
	return f
}

// name is one that a resource of the kind has, one that it may have, or something hostile.
func (f *contractFuzz) name(kind policy.Kind) string {
	list := f.d.current().List(kind)
	switch {
	case f.in(8):
		return one(f, hostile)
	case len(list) > 0 && !f.in(4):
		return one(f, list).Metadata.Name
	}
	return one(f, pool)
}

// kindOfRoute is that of an operation on resources; empty: it is on something else.
func kindOfRoute(route string) policy.Kind {
	_, path, _ := strings.Cut(route, " ")
	for _, k := range policy.Kinds() {
		if rest, ok := strings.CutPrefix(path, "/v1/"+policy.Plural(k)); ok && (rest == "" || rest == "/{name}") {
			return k
		}
	}
	return ""
}

func one[T any](f *contractFuzz, list []T) T { return list[f.IntN(len(list))] }

func (f *contractFuzz) in(n int) bool { return f.IntN(n) == 0 }

// text is a name that there may be, or something hostile.
func (f *contractFuzz) text(s node) string {
	if list, ok := s["enum"].([]any); ok && !f.in(5) {
		return fmt.Sprint(one(f, list))
	}
	if f.in(3) {
		return one(f, hostile)
	}
	return one(f, pool)
}

// value fits a schema, more or less; at a depth it is empty.
func (f *contractFuzz) value(schema node, depth int) any {
	s := resolve(schema)
	if list, ok := s["oneOf"].([]any); ok {
		return f.value(one(f, list).(node), depth)
	}
	if c, ok := s["const"]; ok && !f.in(20) {
		return c
	}
	t := s["type"]
	if list, ok := t.([]any); ok {
		t = one(f, list)
	}
	if f.in(15) { // of another type
		t = one(f, []any{"string", "boolean", "integer", "number", "array", "object", "null"})
	}
	switch t {
	case "boolean":
		return f.in(2)
	case "integer", "number":
		if f.in(3) {
			return json.Number(one(f, numbers))
		}
		return f.IntN(100)
	case "array":
		list := []any{}
		items, _ := s["items"].(node)
		for range f.IntN(4) {
			if items != nil && depth > 0 {
				list = append(list, f.value(items, depth-1))
			}
		}
		return list
	case "object":
		return f.object(s, depth)
	case "null":
		return nil
	}
	return f.text(s)
}

func (f *contractFuzz) object(s node, depth int) node {
	out := node{}
	properties, _ := s["properties"].(node)
	required, _ := s["required"].([]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		needed := slices.Contains(required, any(key))
		if depth > 0 && (needed && !f.in(30) || !needed && f.in(3)) {
			out[key] = f.value(properties[key].(node), depth-1)
		}
	}
	if more, ok := s["additionalProperties"].(node); ok && depth > 0 {
		for range f.IntN(3) {
			out[f.text(node{})] = f.value(more, depth-1)
		}
	}
	return out
}

// body is for an operation on a kind: a good document, one that was changed somewhere, or one made from
// the schema. Unknown says that it holds a field that there is not.
func (f *contractFuzz) body(schema node, kind policy.Kind) (v any, unknown bool) {
	v = f.value(schema, 6)
	if good := f.good[kind]; len(good) > 0 && !f.in(3) {
		v = clone(one(f, good))
		for range f.IntN(3) {
			f.mutate(v, schema)
		}
	}
	if o, ok := v.(node); ok && f.in(8) {
		o = f.inside(o)
		o["colour"], unknown = "red", true
	}
	return v, unknown
}

// inside is the object itself, or its spec.
func (f *contractFuzz) inside(o node) node {
	if spec, ok := o["spec"].(node); ok && f.in(2) {
		return spec
	}
	return o
}

// mutate changes one place of a document.
func (f *contractFuzz) mutate(v any, schema node) {
	switch x := v.(type) {
	case node:
		keys := slices.Sorted(maps.Keys(x))
		if len(keys) == 0 {
			return
		}
		key := one(f, keys)
		properties, _ := resolve(schema)["properties"].(node)
		of, _ := properties[key].(node)
		switch {
		case key == "metadata" && f.in(2):
			x[key] = node{"name": one(f, pool)}
		case f.in(6):
			delete(x, key)
		case f.in(3):
			x[key] = f.value(of, 4)
		default:
			f.mutate(x[key], of)
		}
	case []any:
		items, _ := resolve(schema)["items"].(node)
		if len(x) > 0 {
			f.mutate(x[f.IntN(len(x))], items)
		}
	}
}

func clone(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	out, err := readBody(b)
	if err != nil {
		panic(err)
	}
	return out
}

// attempt is one request, and what must not come of it.
type attempt struct {
	route   string
	o       node
	r       *http.Request
	sent    []byte
	unknown bool // it holds a field or parameter that there is not
	// proposal is the one that it is about; nil: none that there is.
	proposal *statepb.Proposal
}

func (f *contractFuzz) attempt(route string, o node, path node) *attempt {
	method, template, _ := strings.Cut(route, " ")
	a := &attempt{route: route, o: o}
	where, name := template, ""
	for strings.Contains(where, "{") {
		before, after, _ := strings.Cut(where, "{")
		_, after, _ = strings.Cut(after, "}")
		name = f.name(kindOfRoute(route))
		all := f.d.current().Proposals()
		open := slices.DeleteFunc(slices.Clone(all), func(p *statepb.Proposal) bool { return p.GetState() != state.ProposalPending })
		if len(open) > 0 && !f.in(4) { // most have ended
			all = open
		}
		if strings.HasPrefix(template, "/v1/proposals") && len(all) > 0 && !f.in(4) {
			a.proposal = one(f, all)
			name = strconv.FormatUint(a.proposal.GetId(), 10)
		}
		where = before + url.PathEscape(name) + after
	}
	parameters, _ := o["parameters"].([]any)
	common, _ := path["parameters"].([]any)
	query, header := url.Values{}, http.Header{}
	for _, p := range slices.Concat(common, parameters) {
		p := resolve(p.(node))
		name, schema := p["name"].(string), resolve(p["schema"].(node))
		if name == "If-Match" && !f.in(4) {
			header.Set(name, "*")
			continue
		}
		if p["in"] == "path" || !f.in(4) {
			continue
		}
		given := strings.Trim(fmt.Sprint(f.value(schema, 1)), "[]")
		switch p["in"] {
		case "query":
			query.Add(name, given)
		default:
			header.Set(name, strings.Map(func(r rune) rune { // what net/http would let through
				if r < ' ' || r == 0x7f {
					return -1
				}
				return r
			}, given))
		}
	}
	if f.in(20) {
		query.Add("colour", "red")
		a.unknown = true
	}
	a.sent = f.content(a, header, name)
	a.r = httptest.NewRequest(method, "/", bytes.NewReader(a.sent))
	a.r.URL = &url.URL{Path: where, RawQuery: query.Encode()}
	if plain, err := url.PathUnescape(where); err == nil {
		a.r.URL.Path, a.r.URL.RawPath = plain, where
	}
	a.r.Header = header
	token := "secret-admin"
	if f.in(12) {
		token = one(f, []string{"secret-viewer", "secret-operator", "secret-approver", "", "nobody", "\xff"})
	}
	if a.proposal != nil && f.in(2) {
		token = "secret-approver" // most of them are the admin's
	}
	header.Set("Authorization", "Bearer "+token)
	return a
}

// content writes the body of an operation that takes one.
func (f *contractFuzz) content(a *attempt, header http.Header, name string) []byte {
	request, ok := a.o["requestBody"].(node)
	if !ok {
		if f.in(20) {
			return []byte(one(f, hostile))
		}
		return nil
	}
	content := resolve(request)["content"].(node)
	media := one(f, slices.Sorted(maps.Keys(content)))
	header.Set("Content-Type", media)
	if f.in(20) {
		header.Set("Content-Type", one(f, []string{"", "text/html", "application/json; charset=latin1", ";", "multipart/form-data"}))
	}
	kind := kindOfRoute(a.route)
	schema, _ := content[media].(node)["schema"].(node)
	if kind != "" {
		schema = node{"$ref": "#/components/schemas/" + string(kind)} // of a patch too
	}
	v, unknown := f.body(schema, kind)
	if o, ok := v.(node); ok && a.proposal != nil && !f.in(3) {
		o["sha256"] = hex.EncodeToString(a.proposal.GetSha256())
	}
	if o, ok := v.(node); ok && kind != "" && !f.in(6) {
		if name == "" {
			name = f.name(kind)
		}
		o["metadata"] = node{"name": name}
	}
	b, err := json.Marshal(v)
	if err != nil { // a number that is none
		return []byte(one(f, hostile))
	}
	switch {
	case f.in(25):
		return b[:f.IntN(len(b)+1)]
	case f.in(60):
		return bytes.Repeat(b, 1+MaxBody/max(len(b), 1))
	}
	a.unknown = a.unknown || unknown
	return b
}

// TestRequestsMadeFromTheDocument calls every operation with what fits its description, more or less: no
// answer is a 5xx that the document does not name, each is as described, and what there is not is refused.
func TestRequestsMadeFromTheDocument(t *testing.T) {
	const perSeed = 4000
	seeds, until := uint64(3), time.Time{}
	if os.Getenv("ANABRANCH_STRESS") != "" {
		seeds, until = 1<<62, time.Now().Add(10*time.Minute)
	}
	paths := rawDocument()["paths"].(node)
	routes := slices.Sorted(maps.Keys(operations()))
	changes := slices.DeleteFunc(slices.Clone(routes), func(r string) bool { return kindOfRoute(r) == "" || strings.HasPrefix(r, "GET ") })
	answered := map[string]map[int]int{}
	for seed := uint64(1); seed <= seeds && !t.Failed() && (until.IsZero() || time.Now().Before(until)); seed++ {
		var log bytes.Buffer
		d := newUnserved(t, planning(nil), func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		d.order(&statepb.Command_SetFeatureLevel{SetFeatureLevel: &statepb.SetFeatureLevel{Level: 3}})
		d.server.Drain() // watches end after what they have to tell at first
		f := newContractFuzz(t, d, seed)
		for i := range perSeed {
			route := routes[i%len(routes)]
			if !f.in(3) {
				route = one(f, routes)
			}
			switch i % 100 {
			case 0: // few are, by chance, of one that waits
				route = "POST /v1/proposals/{id}/approve"
			case 25, 50, 75: // nor of what makes one wait
				route = one(f, changes)
			case 10, 30, 40, 60, 80, 90: // nor of what a rule protects
				route = "PATCH /v1/regions/{name}"
			}
			method, path, _ := strings.Cut(route, " ")
			at := paths[path].(node)
			a := f.attempt(route, at[strings.ToLower(method)].(node), at)
			log.Reset()
			out := httptest.NewRecorder()
			d.server.Handler().ServeHTTP(out, a.r)
			if answered[route] == nil {
				answered[route] = map[int]int{}
			}
			answered[route][out.Code]++
			if wrong := a.judge(d, out); len(wrong) > 0 {
				t.Errorf("seed %d, request %d: %s %s %v\n%.1500q\n%s\n%.3000s", seed, i, route, a.r.URL.RequestURI(), a.r.Header, a.sent, strings.Join(wrong, "\n"), log.String())
			}
			d.advance(50 * time.Millisecond)
		}
	}
	done := map[string]int{} // writes of resources, by method
	for _, route := range routes {
		if len(answered[route]) == 0 {
			t.Errorf("%s was never called", route)
		}
		if method, _, _ := strings.Cut(route, " "); kindOfRoute(route) != "" {
			done["proposed"] += answered[route][202]
			done[method] += answered[route][200] + answered[route][201] + answered[route][204]
		}
	}
	done["approved"] = answered["POST /v1/proposals/{id}/approve"][200]
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "proposed", "approved"} {
		if done[method] < 5 {
			t.Errorf("%s came through %d times: the requests are too wrong to find anything", method, done[method])
		}
	}
}

// judge says what is wrong with an answer.
func (a *attempt) judge(d *double, out *httptest.ResponseRecorder) []string {
	if out.Code == http.StatusNotFound && out.Header().Get("Content-Type") == "application/problem+json" && strings.Contains(out.Body.String(), "nothing at this path") {
		return nil // a name that is none, such as an empty one
	}
	o := a.o
	if actual, ok := operationNode(a.r.Method, a.r.URL.EscapedPath()); ok {
		o = actual // a name may be that of another operation
	}
	if out.Code == http.StatusMethodNotAllowed || strings.HasSuffix(a.r.URL.Path, "/") {
		return nil
	}
	wrong := breaches(o, out.Code, out.Header().Get("Content-Type"), out.Body.Bytes())
	if out.Code >= 500 && out.Code != http.StatusServiceUnavailable {
		wrong = append(wrong, fmt.Sprintf("status %d", out.Code))
	}
	if a.unknown && out.Code < 300 && o["x-anabranch-needs"] != "none" {
		wrong = append(wrong, fmt.Sprintf("took what there is not: %d", out.Code))
	}
	if out.Code >= 400 && out.Header().Get("X-Request-Id") == "" {
		wrong = append(wrong, "no request id")
	}
	return wrong
}
