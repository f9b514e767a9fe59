package dev

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTakenPortsAreNamedWithTheirOwner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().String()
	us := []Unit{
		{Kind: KindNode, Name: "n1", Ports: []string{address(t), taken}},
		{Kind: KindRouter, Name: "us", Ports: []string{taken}},
	}
	err = checkPorts(us)
	if err == nil {
		t.Fatal("a taken port passes")
	}
	for _, want := range []string{
		"port " + portOf(taken) + ", for controlplane-n1,", "for router-us,", fmt.Sprintf("process %d (", os.Getpid()), "anabranch dev stop",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	many := checkPorts([]Unit{{Ports: slices.Repeat([]string{taken}, shownPorts+3)}})
	if many == nil || strings.Count(many.Error(), "is taken by") != shownPorts || !strings.Contains(many.Error(), "\n  and 3 more\n") {
		t.Errorf("many: %v", many)
	}
	if err := checkPorts(us[:0]); err != nil {
		t.Errorf("nothing to check: %v", err)
	}
	if err := checkPorts([]Unit{{Ports: []string{address(t)}}}); err != nil {
		t.Errorf("a free port: %v", err)
	}
}

func TestListenersAreReadFromProc(t *testing.T) {
	const row = "   0: 0100007F:1BBC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0000000000000000 100 0 0 10 0\n"
	for name, c := range map[string]struct {
		row   string
		port  int
		inode string
	}{
		"listens":           {row, 7100, "4242"},
		"another port":      {row, 7101, ""},
		"connected":         {strings.Replace(row, " 0A ", " 01 ", 1), 7100, ""},
		"header":            {"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n", 7100, ""},
		"of IP version 6":   {strings.Replace(row, "0100007F:", "00000000000000000000000001000000:", 1), 7100, "4242"},
		"cut":               {row[:40], 7100, ""},
		"not a hexadecimal": {strings.Replace(row, "1BBC", "xyz", 1), 7100, ""},
		"empty":             {"", 7100, ""},
	} {
		inode, ok := listener(c.row, c.port)
		if ok != (c.inode != "") || ok && inode != c.inode {
			t.Errorf("%s: %q, %v, want %q", name, inode, ok, c.inode)
		}
	}
}

func TestOwnerIsToldAsFarAsItCanBeSeen(t *testing.T) {
	proc := t.TempDir()
	write := func(text string, parts ...string) {
		t.Helper()
		path := filepath.Join(append([]string{proc}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := owner(proc, 7100); got != "an unknown process" {
		t.Errorf("no proc: %q", got)
	}
	write("0: 0100007F:1BBC 00000000:0000 0A 0:0 00:0 0 0 0 4242 1\n", "net", "tcp")
	if got := owner(proc, 7100); got != "a process of another user" {
		t.Errorf("no descriptors: %q", got)
	}
	write("redis-server\n", "77", "comm")
	for link, to := range map[string]string{"fd/3": "socket:[4242]", "cwd": "/srv/other"} {
		path := filepath.Join(proc, "77", link)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	if got := owner(proc, 7100); got != "process 77 (redis-server) of /srv/other" {
		t.Errorf("owner = %q", got)
	}
}

func FuzzListener(f *testing.F) {
	f.Add("   0: 0100007F:1BBC 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0", 7100)
	f.Add("a b : 0A", 0)
	f.Fuzz(func(t *testing.T, row string, port int) {
		if inode, ok := listener(row, port); ok && (inode == "" || port < 0 || port > 65535) {
			t.Errorf("inode %q of port %d", inode, port)
		}
	})
}
