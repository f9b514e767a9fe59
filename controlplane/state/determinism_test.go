package state

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"anabranch/api/order"
	"anabranch/api/routerpb"
	"anabranch/controlplane/policy"
	"anabranch/controlplane/state/statepb"
)

// reads lists what makes two nodes see different things: functions of a package, or all of it.
var reads = map[string][]string{
	"time":         {"Now", "Since", "Until", "After", "Tick", "NewTimer", "NewTicker", "Sleep", "AfterFunc", "Local"},
	"os":           nil,
	"runtime":      nil,
	"math/rand":    nil,
	"math/rand/v2": nil,
	"crypto/rand":  nil,
	"hash/maphash": nil,
	"unsafe":       nil,
	"sync":         nil,
	"context":      nil,
}

// applied are the folders whose code runs inside Apply.
var appliedBy = []string{".", "../policy", "../audit", "../access", "../account", "../../costmodel", "../../failover/drill", "../../api/order", "../../api/residence"}

func parsed(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	for _, name := range must(fs.Glob(os.DirFS(dir), "*.go")) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[dir+"/"+name] = f
	}
	if len(files) < 2 {
		t.Fatalf("found %d files in %s", len(files), dir)
	}
	return files
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// mapFields are the names of the structs' fields that are maps, of a whole package.
func mapFields(files ...*ast.File) map[string]bool {
	fields := map[string]bool{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range s.Fields.List {
				if _, ok := field.Type.(*ast.MapType); !ok {
					continue
				}
				for _, name := range field.Names {
					fields[name.Name] = true
				}
			}
			return true
		})
	}
	return fields
}

// impure says what a file reads that differs between nodes.
func impure(f *ast.File, fields map[string]bool) (found []string) {
	names := map[string]string{} // by which a package goes in this file
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		some, listed := reads[path]
		if listed && some == nil {
			found = append(found, "import "+path)
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && names[x.Name] == "time" {
				for _, bad := range reads["time"] {
					if n.Sel.Name == bad {
						found = append(found, "time."+bad)
					}
				}
			}
		case *ast.GoStmt, *ast.SelectStmt:
			found = append(found, fmt.Sprintf("%T", n))
		}
		return true
	})
	return append(found, mapRanges(f, names, fields)...)
}

// mapRanges finds loops over what the file declares as maps, and calls of package maps that walk one
// other than to copy, compare or sort it.
func mapRanges(f *ast.File, names map[string]string, fields map[string]bool) (found []string) {
	maps := map[string]bool{}
	isMap := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.MapType:
			return true
		case *ast.CompositeLit:
			_, ok := e.Type.(*ast.MapType)
			return ok
		case *ast.CallExpr:
			if fun, ok := e.Fun.(*ast.Ident); ok && fun.Name == "make" {
				_, ok := e.Args[0].(*ast.MapType)
				return ok
			}
		}
		return false
	}
	sorted := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				maps[name.Name] = maps[name.Name] || isMap(n.Type)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				maps[name.Name] = maps[name.Name] || n.Type != nil && isMap(n.Type)
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if x, ok := left.(*ast.Ident); ok && len(n.Rhs) == len(n.Lhs) && isMap(n.Rhs[i]) {
					maps[x.Name] = true
				}
			}
		case *ast.CallExpr: // slices.Sorted(maps.Keys(m))
			if fun, ok := n.Fun.(*ast.SelectorExpr); ok && fun.Sel.Name == "Sorted" && len(n.Args) == 1 {
				sorted[n.Args[0]] = true
			}
		}
		return true
	})
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			switch x := n.X.(type) {
			case *ast.Ident:
				if maps[x.Name] {
					found = append(found, "range over the map "+x.Name)
				}
			case *ast.SelectorExpr:
				if fields[x.Sel.Name] {
					found = append(found, "range over the map "+x.Sel.Name)
				}
			}
		case *ast.CallExpr:
			if fun, ok := n.Fun.(*ast.SelectorExpr); ok && !sorted[n] {
				x, ok := fun.X.(*ast.Ident)
				if walk := fun.Sel.Name == "Keys" || fun.Sel.Name == "Values" || fun.Sel.Name == "All"; ok && walk && names[x.Name] == "maps" {
					found = append(found, "maps."+fun.Sel.Name+" unsorted")
				}
			}
		}
		return true
	})
	return found
}

// sortsItself are loops over maps whose result is put in order right after.
var sortsItself = []string{
	"../policy/canonical.go: range over the map Labels",    // members of a node, which writes them sorted
	"../policy/validate.go: range over the map m",          // sortedKeys
	"../../costmodel/book.go: range over the map shelves",  // each is put in order by itself
	"../../costmodel/reconcile.go: range over the map all", // put in order right after
}

func TestNothingInApplyReadsWhatDiffersBetweenNodes(t *testing.T) {
	for _, dir := range appliedBy {
		files := parsed(t, dir)
		fields := mapFields(slices.Collect(maps.Values(files))...)
		for path, f := range files {
			for _, what := range impure(f, fields) {
				if found := path + ": " + what; !slices.Contains(sortsItself, found) {
					t.Error(found)
				}
			}
		}
	}
}

func TestWhatDiffersBetweenNodesIsFound(t *testing.T) {
	for name, code := range map[string]string{
		"clock":          `import "time"; func f() { _ = time.Now() }`,
		"renamed clock":  `import x "time"; func f() { _ = x.Since }`,
		"random":         `import "math/rand/v2"; func f() { _ = rand.Int() }`,
		"environment":    `import "os"; func f() { _ = os.Getpid() }`,
		"field":          `type a struct { m map[int]int }; func (v a) f() { for range v.m {} }`,
		"local":          `func f() { m := map[int]int{}; for range m {} }`,
		"made":           `func f() { m := make(map[int]int); for range m {} }`,
		"variable":       `func f() { var m map[int]int; for range m {} }`,
		"parameter":      `func f(m map[int]int) { for range m {} }`,
		"keys":           `import "maps"; func f(m map[int]int) { for range maps.Keys(m) {} }`,
		"two goroutines": `func f() { go f() }`,
		"select":         `func f() { select {} }`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), name, "package p; "+code, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(impure(f, mapFields(f))) == 0 {
			t.Errorf("%s: not found in %s", name, code)
		}
	}
	fine := `package p; import ("maps"; "slices"; "time"); func f(m map[int]int, at time.Time) { for range slices.Sorted(maps.Keys(m)) {}; _ = time.UnixMilli(1) }`
	f, err := parser.ParseFile(token.NewFileSet(), "fine", fine, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := impure(f, mapFields(f)); len(found) > 0 {
		t.Errorf("found %q where there is nothing", found)
	}
}

// muddled draws a command that has something wrong in it more often than not, since the order in
// which complaints are found must not differ either.
func muddled(t *rapid.T, index uint64) *statepb.Command {
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
	other := rapid.SampledFrom([]string{"a", "b", "none"})
	kind := rapid.SampledFrom(policy.Kinds()).Draw(t, "kind")
	spec := map[policy.Kind]string{
		policy.KindRegion:        fmt.Sprintf(`{"rttMs":{%q:80,"b":20,"none":9,"c":3}}`, other.Draw(t, "to")),
		policy.KindModel:         fmt.Sprintf(`{"adapters":["x-%s"],"aliases":["al-%s"]}`, other.Draw(t, "adapter"), other.Draw(t, "alias")),
		policy.KindCluster:       fmt.Sprintf(`{"region":%q,"models":[%q],"modelNames":{"a":"A","b":"B","none":"N"},"endpoints":[{"id":"e","url":"http://%s:1","class":"h"}]}`, other.Draw(t, "region"), other.Draw(t, "model"), name),
		policy.KindTenant:        fmt.Sprintf(`{"residency":[%q,"nowhere"]}`, other.Draw(t, "residency")),
		policy.KindTrafficPolicy: fmt.Sprintf(`{"models":[%q],"regions":[{"region":%q,"weight":1}]}`, other.Draw(t, "model"), other.Draw(t, "region")),
		policy.KindQuota:         fmt.Sprintf(`{"tenant":%q,"limits":[{"resource":"requests","rate":10,"per":"1s"}]}`, other.Draw(t, "tenant")),
		policy.KindRateCard:      fmt.Sprintf(`{"region":%q}`, other.Draw(t, "region")),
		policy.KindDrillPlan:     fmt.Sprintf(`{"kind":"soft","target":{"region":%q},"models":[%q,"b"],"tenants":["none",%q]}`, other.Draw(t, "region"), other.Draw(t, "model"), other.Draw(t, "tenant")),
	}[kind]
	var cmd *statepb.Command
	id := rapid.Uint64Range(1, index).Draw(t, "id")
	switch rapid.IntRange(0, 17).Draw(t, "op") {
	case 0:
		cmd = command(&statepb.Delete{Kind: string(kind), Name: name, Manager: writer(t), Force: name == "c"})
	case 1:
		cmd = command(&statepb.Publish{
			Table: &routerpb.Table{
				Regions:  []*routerpb.Region{{Id: name, RttMs: map[string]float64{"a": 1, "b": 2, "c": 3, "d": 4}}},
				Clusters: []*routerpb.Cluster{{Id: name, ModelNames: map[string]string{"a": "x", "b": "y", "c": "z"}}},
			},
			Health: []*statepb.ClusterHealth{{Cluster: "b", State: name}, {Cluster: "a", State: name}, {Cluster: "b", State: "twice"}},
		})
	case 2:
		cmd = command(&statepb.PutNode{Id: name, Version: other.Draw(t, "version")})
	case 3:
		cmd = raise(rapid.Uint32Range(1, Format).Draw(t, "level"))
	case 4:
		cmd = command(&statepb.Note{Action: rapid.SampledFrom([]string{"refused", "delete"}).Draw(t, "action"), Kind: string(kind), Name: name})
	case 5:
		cmd = spending(rapid.Uint64Range(1, 3).Draw(t, "sequence"), name, &routerpb.Spent{
			Organisation: name, Limit: other.Draw(t, "limit"), Micros: 7, WindowUnixUs: rapid.Int64Range(0, 4).Draw(t, "window"),
		})
	case 6:
		cmd = warning(name, other.Draw(t, "limit"), rapid.Int64Range(0, 4).Draw(t, "window"), rapid.Uint32Range(0, 3).Draw(t, "percent"))
	case 7:
		cmd = command(&statepb.CreateDrill{Plan: name, Spec: []byte(`{"kind":"soft"}`), Series: other.Draw(t, "series")})
	case 8:
		cmd = command(&statepb.DecideDrill{
			Id: id, Act: rapid.SampledFrom([]string{DrillValidate, DrillApprove, DrillStart, DrillPause, DrillResume, DrillAbort, "hurry"}).Draw(t, "act"),
			Resolved: []byte(`{"clusters":["a"]}`), Forecast: []byte(`{"verdict":"PASS"}`), BreakGlass: other.Draw(t, "glass"), Series: rapid.Bool().Draw(t, "all"),
		})
	case 9:
		cmd = command(&statepb.SteerDrill{Id: id, IfRevision: id, State: rapid.SampledFrom([]string{"PRECHECK", "BASELINE", "ROLLING_BACK", "VERIFY", "DONE"}).Draw(t, "state"), Outcome: name})
	case 10:
		cmd = command(&statepb.RenewDrill{Id: id, IfRevision: id, Samples: []byte{1}})
	case 11, 12:
		cmd = muddledOrder(t, name, index)
	case 13:
		cmd = command(&statepb.Publish{Tighten: true, Table: &routerpb.Table{
			Regions: []*routerpb.Region{{Id: name, Zone: "z"}}, Tenants: []*routerpb.Tenant{{Id: name, Residency: []string{other.Draw(t, "place")}}},
			Rules: []*routerpb.Rule{{Id: name, Models: []string{name}, Residency: []string{other.Draw(t, "where")}}, {Id: "z", Residency: []string{"a"}}},
		}})
	default:
		doc := fmt.Sprintf(`{"labels":{"z":%q,"a":"2","m":"3"},"spec":%s}`, other.Draw(t, "label"), spec)
		cmd = command(&statepb.Put{
			Kind: string(kind), Name: name, Doc: []byte(doc), AnyRevision: true,
			Manager: writer(t), Force: rapid.Bool().Draw(t, "force"), RollbackTo: rapid.Uint64Range(0, 1).Draw(t, "rollback"),
		})
	}
	cmd.AtUnixMs = int64(index) * 1000
	return cmd
}

// muddledOrder gives an emergency order, by a quorum or as one that was taken without, or ends one.
func muddledOrder(t *rapid.T, name string, index uint64) *statepb.Command {
	c := &statepb.Command{Format: 6, Actor: &statepb.Actor{Name: "ann"}}
	if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
		c.Op = &statepb.Command_EndOrder{EndOrder: &statepb.EndOrder{Id: rapid.SampledFrom([]string{"1", "2", "3", "a", "b"}).Draw(t, "of")}}
		return c
	}
	at := int64(index) * 1000
	o := &routerpb.Order{Kind: string(rapid.SampledFrom(order.Kinds).Draw(t, "order")), Actor: "ann", Reason: "x", AtUnixMs: at, ExpiresUnixMs: at + rapid.Int64Range(0, 20_000).Draw(t, "term")}
	switch order.Kind(o.GetKind()) {
	case order.Evacuate, order.Restore:
		o.Target = rapid.SampledFrom([]string{"region/", "cluster/", ""}).Draw(t, "what") + name
	case order.Revert:
		o.Revision = rapid.Uint64Range(1, index).Draw(t, "table")
	case order.Freeze, order.Shed, order.StopDrills:
	}
	put := &statepb.PutOrder{Order: o}
	if rapid.Bool().Draw(t, "signed") {
		o.Id, put.Key, put.Counter, put.GivenUnixMs = name, "k", rapid.Uint64Range(1, 5).Draw(t, "counter"), at
	}
	c.Op = &statepb.Command_PutOrder{PutOrder: put}
	return c
}

// writer draws in whose name a resource is written.
func writer(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "sizer", "mover", "Bad Name"}).Draw(t, "manager")
}

// Nodes come by their state in different ways: one has applied everything, one has restored a
// snapshot on the way, and each has decoded the commands for itself, from bytes in which maps stand in
// any order. They agree on every outcome, word for word, and on the state.
func TestNodesThatCameByTheirStateInDifferentWaysAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := must(proto.Marshal(initCommand()))
		nodes := []*View{Empty(), Empty(), Empty()}
		apply := func(wire func() []byte) {
			var told *statepb.Outcome
			for i, v := range nodes {
				var cmd statepb.Command
				if err := proto.Unmarshal(wire(), &cmd); err != nil {
					rt.Fatal(err)
				}
				next, out, err := Apply(v, v.Index()+1, &cmd)
				if err != nil {
					rt.Fatal(err)
				}
				if nodes[i] = next; told != nil && !proto.Equal(out, told) {
					rt.Fatalf("%v: one node says %v, another %v", &cmd, told, out)
				}
				told = out
			}
		}
		apply(func() []byte { return first })
		for range rapid.IntRange(1, 40).Draw(rt, "commands") {
			cmd := muddled(rt, nodes[0].Index()+1)
			apply(func() []byte { return must(proto.MarshalOptions{}.Marshal(cmd)) })
			if rapid.IntRange(0, 4).Draw(rt, "restart") == 0 {
				var snapshot bytes.Buffer
				if err := Encode(nodes[0], &snapshot); err != nil {
					rt.Fatal(err)
				}
				nodes[1] = must(Decode(&snapshot))
			}
			if !Equal(nodes[0], nodes[1]) || !Equal(nodes[0], nodes[2]) {
				rt.Fatalf("after %v the states differ", cmd)
			}
		}
	})
}
