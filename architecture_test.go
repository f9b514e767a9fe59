// Package anabranch_test holds the rules about the tree that no compiler checks. It parses the
// sources itself, so that the test cache notices when they change.
package anabranch_test

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "anabranch/"

// layers lists the folders from the bottom of the import graph to its top. A package imports from
// layers below its own, and from its own as siblings says.
var layers = [][]string{
	{"api"},
	{"ratelimit", "failover", "costmodel"},
	{"controlplane", "dataplane"},
	{"sim"},
	{"cmd"},
}

// top is every folder that may hold Go packages. web is embedded by cmd and imports nothing.
var top = []string{"api", "cmd", "controlplane", "costmodel", "dataplane", "failover", "ratelimit", "sim", "web"}

// forbidden names say nothing about what a package holds.
var forbidden = []string{"pkg", "internal", "types", "util", "utils", "common", "helpers", "misc"}

// pure maps a package to what it must not reach, not even by way of our other packages.
var pure = map[string][]string{
	"ratelimit":              {"github.com/redis", "net/http", "google.golang.org/grpc"},
	"failover":               {"net", "net/http", "google.golang.org/grpc"},
	"costmodel":              {"github.com/aws", "net/http"},
	"costmodel/pricelist":    {"github.com/aws", "net/http"},
	"costmodel/awsprice":     {"github.com/aws/aws-sdk-go-v2/service/ec2"},
	"controlplane/policy":    {"github.com/hashicorp/raft", "net/http", "go.etcd.io"},
	"controlplane/plan":      {"github.com/hashicorp/raft", "net/http", "net", "math/rand", "math/rand/v2"},
	"controlplane/plan/flow": {"anabranch/", "net", "time", "math/rand", "math/rand/v2"},
	"controlplane/state":     {"github.com/hashicorp/raft", "net/http", "math/rand", "math/rand/v2", "crypto/rand"},
	"dataplane/pick":         {"net/http", "math/rand", "math/rand/v2"},
	"dataplane/route":        {"net/http", "math/rand", "math/rand/v2"},
	"cmd/anabranch-router":   {"github.com/hashicorp/raft", "go.etcd.io", "github.com/labstack", "github.com/aws", "k8s.io"},
}

// extras are the build tags that the commands are not built with unless somebody wants what they add.
var extras = []string{"kubernetes"}

// source is one parsed Go file.
type source struct {
	path string // with slashes, from the root
	dir  string
	file *ast.File
}

func (s source) imports() []string {
	var out []string
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// extra says whether the file is compiled only with one of the extras.
func (s source) extra() bool {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) || c.Pos() > s.file.Package {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			return err == nil && !expr.Eval(func(tag string) bool { return !slices.Contains(extras, tag) })
		}
	}
	return false
}

// sources are all Go files of the tree, parsed once for all tests.
func sources(t *testing.T) []source {
	t.Helper()
	out, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d Go files: the test looks in the wrong folder", len(out))
	}
	return out
}

var parsed = sync.OnceValues(func() ([]source, error) {
	var out []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(path)
		out = append(out, source{path: slash, dir: filepath.ToSlash(filepath.Dir(path)), file: file})
		return nil
	})
	return out, err
})

func layer(dir string) int {
	first, _, _ := strings.Cut(dir, "/")
	for i, names := range layers {
		for _, name := range names {
			if name == first {
				return i
			}
		}
	}
	return -1
}

// breaks says why the package in dir may not import the own package at target, or "".
func breaks(dir, target string) string {
	from, to := layer(dir), layer(target)
	first, _, _ := strings.Cut(dir, "/")
	second, _, _ := strings.Cut(target, "/")
	switch {
	case second == "web" && first != "cmd":
		return "web is embedded by cmd alone"
	case first == "web":
		return "web imports nothing of ours"
	case second == "web":
		return ""
	case to > from:
		return "imports flow from the bottom to the top of the layers"
	case to == from && first != second:
		return first + " and " + second + " stand side by side and meet only in what is below them"
	}
	return ""
}

func TestImportsFlowOneWay(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "." {
			continue
		}
		for _, imported := range s.imports() {
			target, own := strings.CutPrefix(imported, module)
			if !own {
				continue
			}
			if why := breaks(s.dir, target); why != "" {
				t.Errorf("%s imports %s: %s", s.path, target, why)
			}
		}
	}
}

func TestTheRuleItselfBites(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"api/fleet", "failover"},
		{"failover", "ratelimit"},
		{"controlplane/plan", "dataplane/pick"},
		{"dataplane", "controlplane/state"},
		{"dataplane/route", "sim"},
		{"sim", "cmd/e2e"},
		{"controlplane/rest", "web"},
	} {
		if breaks(c.from, c.to) == "" {
			t.Errorf("%s may import %s, and should not", c.from, c.to)
		}
	}
}

func TestFolders(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "." {
			continue
		}
		first, _, _ := strings.Cut(s.dir, "/")
		known := false
		for _, name := range top {
			known = known || name == first
		}
		if !known {
			t.Errorf("%s: %q is not one of the folders of the project: %v", s.path, first, top)
		}
		for part := range strings.SplitSeq(s.dir, "/") {
			for _, bad := range forbidden {
				if part == bad {
					t.Errorf("%s: a folder named %q says nothing of what it holds", s.path, bad)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		documented[s.dir] = documented[s.dir] || s.file.Doc != nil
	}
	var silent []string
	for dir, ok := range documented {
		if !ok && !strings.HasSuffix(dir, "pb") {
			silent = append(silent, dir)
		}
	}
	sort.Strings(silent)
	for _, dir := range silent {
		t.Errorf("%s: no file has a package comment", dir)
	}
}

// TestPureStaysPure follows imports through our own packages, so that a decision can't reach a
// socket by way of a neighbour, and the router's binary stays lean.
func TestPureStaysPure(t *testing.T) {
	imports := map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.test() || s.extra() {
			continue
		}
		if imports[s.dir] == nil {
			imports[s.dir] = map[string]bool{}
		}
		for _, imported := range s.imports() {
			imports[s.dir][imported] = true
		}
	}
	for dir, denied := range pure {
		if imports[dir] == nil {
			t.Errorf("%s does not exist: the rule about it is out of date", dir)
			continue
		}
		seen := map[string]bool{}
		var walk func(at, way string)
		walk = func(at, way string) {
			if seen[at] {
				return
			}
			seen[at] = true
			for imported := range imports[at] {
				for _, bad := range denied {
					if imported == bad || strings.HasPrefix(imported, bad+"/") && strings.Contains(bad, ".") {
						t.Errorf("%s reaches %s by way of %s", dir, imported, way)
					}
				}
				if own, ok := strings.CutPrefix(imported, module); ok && !strings.HasSuffix(own, "pb") {
					walk(own, way+" → "+own)
				}
			}
		}
		walk(dir, dir)
	}
}
