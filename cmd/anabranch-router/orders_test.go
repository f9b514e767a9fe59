package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"anabranch/dataplane/override"
)

// desk runs the orders of a router on a data folder.
func desk(t *testing.T) (b *override.Book, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "anb") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of a test
	if b, err = override.New(override.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := override.Dial(filepath.Join(dir, override.SocketName)).List(t.Context()); err == nil {
			return b, dir
		}
		select {
		case <-deadline:
			t.Fatal("no socket within 20 s")
		case <-tick.C:
		}
	}
}

func TestOrdersByTheCommandLine(t *testing.T) {
	b, dir := desk(t)
	do := func(args ...string) string {
		t.Helper()
		_, out, err := run(t, append([]string{args[0], "--data-dir", dir}, args[1:]...)...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out
	}
	if out := do("orders"); out != "no orders\n" {
		t.Errorf("orders: %q", out)
	}
	out := do("order", "evacuate", "us-east-1-a", "--for", "10m", "--reason", "GPUs are lost", "--actor", "ann")
	id, rest, _ := strings.Cut(strings.TrimPrefix(out, "order "), ":")
	if !strings.HasPrefix(rest, " evacuate us-east-1-a until ") {
		t.Errorf("order: %q", out)
	}
	if why, yes := b.Current().Evacuated("us-east-1-a", "us-east-1"); !yes || why != "emergency order "+id+" by ann" {
		t.Errorf("evacuated: %q, %v", why, yes)
	}
	do("order", "freeze", "--reason", "x")
	do("order", "shed", "50", "--reason", "x")
	if out := do("order", "shed", "--reason", "x", "--", "-5"); !strings.Contains(out, "shed -5 until") {
		t.Errorf("order: %q", out)
	}
	do("order", "restore", "eu-west-1", "--reason", "x")
	if out := do("order", "evacuate", "eu-west-1", "--reason", "x"); !strings.Contains(out, "holds instead") || !strings.Contains(out, "orders cancel") {
		t.Errorf("what is overruled is not told: %q", out)
	}
	if p, ok := b.Current().ShedBelow(); !ok || p != -5 || !b.Current().Frozen() || !b.Current().Restored("eu-a", "eu-west-1") {
		t.Errorf("in force: %+v", b.Status())
	}
	table := do("orders")
	for _, text := range []string{"ID", "ENDS IN", "evacuate us-east-1-a", "9m", "ann", "GPUs are lost", "socket", "shed 50 (overruled by ", "restore eu-west-1"} {
		if !strings.Contains(table, text) {
			t.Errorf("the list has no %q:\n%s", text, table)
		}
	}
	var s override.Status
	if err := json.Unmarshal([]byte(do("orders", "--json")), &s); err != nil || len(s.Orders) != 6 {
		t.Errorf("as JSON: %+v, %v", s, err)
	}
	for _, o := range s.Orders {
		if o.Kind == override.Freeze && o.Actor == "" {
			t.Error("an order is nobody's")
		}
	}
	if out := do("orders", "cancel", id, "--actor", "bob"); out != "order "+id+" ended\n" {
		t.Errorf("cancel: %q", out)
	}
	if _, yes := b.Current().Evacuated("us-east-1-a", "us-east-1"); yes {
		t.Error("a cancelled order holds")
	}
}

func TestTheDataFolderMayBeAVariable(t *testing.T) {
	b, dir := desk(t)
	t.Setenv("ANABRANCH_ROUTER_DATA_DIR", dir)
	if _, _, err := run(t, "order", "freeze", "--reason", "x"); err != nil || !b.Current().Frozen() {
		t.Errorf("%v", err)
	}
	t.Setenv("ANABRANCH_ROUTER_DATA_DIR", "/nowhere")
	if _, out, err := run(t, "orders", "--socket", filepath.Join(dir, override.SocketName)); err != nil || !strings.Contains(out, "freeze") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestMistakesWithOrdersNameTheFix(t *testing.T) {
	_, dir := desk(t)
	at := []string{"--data-dir", dir}
	why := append([]string{"--reason", "x"}, at...)
	for name, c := range map[string]struct {
		args []string
		says []string
	}{
		"no router":           {[]string{"orders"}, []string{"--data-dir", "--socket"}},
		"a router elsewhere":  {[]string{"orders", "--data-dir", dir + "x"}, []string{"no socket at " + dir + "x"}},
		"no reason":           {append([]string{"order", "freeze"}, at...), []string{"--reason"}},
		"no order":            {append([]string{"order", "stop"}, why...), []string{`"stop"`, "freeze, evacuate"}},
		"no place":            {append([]string{"order", "evacuate"}, why...), []string{"cluster or region to leave"}},
		"two places":          {append([]string{"order", "restore", "a", "b"}, why...), []string{"cluster or region to use"}},
		"a crooked place":     {append([]string{"order", "restore", "A b"}, why...), []string{`"A b"`, "cluster/NAME"}},
		"no priority":         {append([]string{"order", "shed"}, why...), []string{"priority"}},
		"a negative priority": {append([]string{"order", "shed", "-5"}, why...), []string{"after --"}},
		"a tier":              {append([]string{"order", "shed", "batch"}, why...), []string{"batch is -10"}},
		"the top tier":        {append([]string{"order", "shed", "101"}, why...), []string{"at most 100"}},
		"no revision":         {append([]string{"order", "revert", "last"}, why...), []string{"2/41"}},
		"no epoch":            {append([]string{"order", "revert", "x/41"}, why...), []string{"2/41"}},
		"nothing kept":        {append([]string{"order", "revert"}, why...), []string{"nothing to go back to"}},
		"a term":              {append([]string{"order", "freeze", "--for", "2d"}, why...), []string{"30m or 2h"}},
		"a long term":         {append([]string{"order", "freeze", "--for", "48h"}, why...), []string{"at most 24h"}},
		"an unknown order":    {append([]string{"orders", "cancel", "x"}, at...), []string{"no such order"}},
		"none to cancel":      {append([]string{"orders", "cancel"}, at...), []string{"by its ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, c.args...)
			if err == nil {
				t.Fatal("taken")
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %s", err, text)
				}
			}
		})
	}
}

func TestHelpSaysWhatOrdersDo(t *testing.T) {
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--help"}, []string{"order ", "orders "}},
		{[]string{"order"}, []string{"evacuate", "after 4h unless", "24h at most", "override.yaml", "--reason"}},
		{[]string{"order", "shed", "--help"}, []string{"best-effort 0", "--for", "--data-dir"}},
		{[]string{"orders", "--help"}, []string{"cancel", "--json", "ANABRANCH_ROUTER_DATA_DIR"}},
	} {
		_, out, err := run(t, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range c.says {
			if !strings.Contains(out, text) {
				t.Errorf("%q has no %q:\n%s", c.args, text, out)
			}
		}
	}
}

func TestAnEmptyListAndProblems(t *testing.T) {
	var out bytes.Buffer
	if err := list(&out, override.Status{Problems: []string{"read orders x: yaml"}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if out.String() != "no orders\nproblem: read orders x: yaml\n" {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	err := list(&out, override.Status{Orders: []override.Given{{Order: override.Order{ID: "a", Kind: override.Revert, Revision: 7}}}}, time.Time{})
	if err != nil || !strings.Contains(out.String(), "revert 7 ") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWhoMissesTheSocketIsToldWhereOneIs(t *testing.T) {
	t.Chdir(t.TempDir())
	at := func(parts ...string) string { return filepath.Join(append(parts, override.SocketName)...) }
	for _, folder := range []string{".anabranch/data/us-r1", "lib/eu-r1"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(folder), nil, 0o600); err != nil { // it is there, which is all that is asked
			t.Fatal(err)
		}
	}
	us, eu := at(".anabranch/data/us-r1"), at("lib/eu-r1")
	for name, c := range map[string]struct {
		args   []string
		has    string // the socket that is missing
		says   []string
		silent string
	}{
		"no folder named":            {[]string{"orders"}, "which router?", []string{us}, eu},
		"the folder of all":          {[]string{"orders", "--data-dir", "lib"}, at("lib"), []string{eu, us}, ""},
		"the folder above":           {[]string{"orders", "--data-dir", "."}, override.SocketName, []string{eu, us}, ""},
		"the state of a development": {[]string{"orders", "--data-dir", ".anabranch"}, at(".anabranch"), []string{us}, ""},
		"a folder beside":            {[]string{"order", "freeze", "--reason", "x", "--data-dir", "lib/eu"}, at("lib/eu"), []string{eu}, ""},
		"a socket beside":            {[]string{"orders", "--socket", "lib/router.sock"}, at("lib"), []string{eu}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, c.args...)
			if err == nil {
				t.Fatal("taken")
			}
			for _, text := range append(c.says, c.has, "--data-dir") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %s", err, text)
				}
			}
			if c.silent != "" && strings.Contains(err.Error(), c.silent) {
				t.Errorf("%q says %s", err, c.silent)
			}
		})
	}
	// Where none is near none is named, and a name that looks like a pattern does no harm.
	t.Chdir(t.TempDir())
	for _, folder := range []string{"a", "[x"} {
		if _, _, err := run(t, "orders", "--data-dir", folder); err == nil || !strings.Contains(err.Error(), "no socket at "+at(folder)) || strings.Contains(err.Error(), "; there is") {
			t.Errorf("%v", err)
		}
	}
}
