package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// free says whether the address can be listened at.
func free(addr string) bool {
	var c net.ListenConfig
	l, err := c.Listen(context.Background(), "tcp", addr) // at once, on this machine
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// shownPorts bounds how many taken ports are listed: another demonstration takes them all.
const shownPorts = 6

// checkPorts names the addresses of the units that are taken, by whom, and the way out.
func checkPorts(all []Unit) error {
	var taken []error
	for _, u := range all {
		for _, addr := range u.Ports {
			if free(addr) {
				continue
			}
			port, _ := strconv.Atoi(portOf(addr)) // our own addresses
			taken = append(taken, fmt.Errorf("  port %d, for %s, is taken by %s", port, u.ID(), owner("/proc", port)))
		}
	}
	if len(taken) == 0 {
		return nil
	}
	if more := len(taken) - shownPorts; more > 0 {
		taken = append(taken[:shownPorts], fmt.Errorf("  and %d more", more))
	}
	return fmt.Errorf("ports are taken:\n%w\nEnd what holds them (`anabranch dev stop` in its folder, if it is another anabranch dev) and start again",
		errors.Join(taken...))
}

// owner describes the process that listens on a TCP port, as far as this user may see it. proc is
// where the proc file system is mounted.
func owner(proc string, port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(filepath.Join(proc, "net", table))
		if err != nil {
			continue
		}
		for row := range strings.Lines(string(b)) {
			if inode, ok := listener(row, port); ok {
				inodes["socket:["+inode+"]"] = true
			}
		}
	}
	links, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "*"))
	if err != nil || len(inodes) == 0 {
		return "an unknown process"
	}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !inodes[to] {
			continue
		}
		process := filepath.Dir(filepath.Dir(link))
		text := "process " + filepath.Base(process)
		if name, err := os.ReadFile(filepath.Join(process, "comm")); err == nil {
			text += " (" + strings.TrimSpace(string(name)) + ")"
		}
		if dir, err := os.Readlink(filepath.Join(process, "cwd")); err == nil {
			text += " of " + dir
		}
		return text
	}
	return "a process of another user"
}

// listener reads a row of /proc/net/tcp and returns the socket's inode if it listens on the port.
func listener(row string, port int) (inode string, ok bool) {
	const local, state, inodeAt, listen = 1, 3, 9, "0A"
	f := strings.Fields(row)
	if len(f) <= inodeAt || f[state] != listen {
		return "", false
	}
	n, err := strconv.ParseUint(portOf(f[local]), 16, 16)
	return f[inodeAt], err == nil && int(n) == port
}
