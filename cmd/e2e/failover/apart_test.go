package failover

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"anabranch/cmd/anabranch/dev/child"
)

// apart is a network namespace without a name: it ends, with all that belongs to it, when the last
// process in it does, however this test ends.
type apart struct {
	t *testing.T
	// here and there are the addresses of the two ends of the wire into it.
	here, there string
	holder      *child.Process
}

// newApart makes one, or says why this machine has none.
func (s *system) newApart() (*apart, error) {
	for _, tool := range []string{"unshare", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, err
		}
	}
	n := rand.IntN(1 << 14)
	a := &apart{
		t: s.t, here: fmt.Sprintf("10.%d.%d.1", 192+n>>8, n&255), there: fmt.Sprintf("10.%d.%d.2", 192+n>>8, n&255),
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return nil, err
	}
	if a.holder, err = s.launcher.Start(child.Command{
		Name: "namespace", Path: unshare, Args: []string{"-n", "sleep", "infinity"}, Log: filepath.Join(s.dir, "namespace.log"),
	}); err != nil {
		return nil, err
	}
	wire, mac := fmt.Sprintf("anb%d", n), fmt.Sprintf("02:00:00:00:%02x:%02x", n>>8, n&255)
	if err := a.separate(); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		func() error {
			return ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", strconv.Itoa(a.holder.Status().PID))
		},
		func() error { return a.ip("link", "set", "eth0", "up") },
		func() error { return a.ip("link", "set", "lo", "up") },
		func() error { return a.ip("addr", "add", a.there+"/30", "dev", "eth0") },
		func() error { return ip("addr", "add", a.here+"/30", "dev", wire) },
		func() error { return ip("link", "set", wire, "up") },
		// Whoever is in a black hole doesn't answer for its address, and an address that nobody answers
		// for is refused.
		func() error {
			return ip("neigh", "replace", a.there, "lladdr", mac, "nud", "permanent", "dev", wire)
		},
	} {
		if err := step(); err != nil {
			_ = a.holder.Kill() // this machine forbids it
			return nil, err
		}
	}
	return a, nil
}

// separate waits until the holder has left this process's namespace.
func (a *apart) separate() error {
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	for range 200 {
		theirs, err := os.Readlink(a.path())
		if err == nil && theirs != ours {
			return nil
		}
		if !a.holder.Status().Running {
			break
		}
		pass(10 * time.Millisecond)
	}
	_ = a.holder.Kill() // it has ended, or is of no use
	return fmt.Errorf("make a network namespace: %s", child.Tail(a.holder.Status().Log, 2))
}

// within is a command that runs there.
func (a *apart) within(c child.Command) child.Command {
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		a.t.Fatal(err)
	}
	c.Args = append([]string{"--net=" + a.path(), c.Path}, c.Args...)
	c.Path = nsenter
	return c
}

func (a *apart) path() string { return fmt.Sprintf("/proc/%d/ns/net", a.holder.Status().PID) }

// swallow makes it a black hole: what is sent there arrives, and nothing comes back.
func (a *apart) swallow() {
	a.t.Helper()
	if err := a.ip("route", "add", "blackhole", a.here+"/32"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *apart) heal() {
	a.t.Helper()
	if err := a.ip("route", "del", "blackhole", a.here+"/32"); err != nil {
		a.t.Fatal(err)
	}
}

func (a *apart) ip(args ...string) error {
	return tool("nsenter", append([]string{"--net=" + a.path(), "ip"}, args...)...)
}

func ip(args ...string) error { return tool("ip", args...) }

func tool(name string, args ...string) error {
	if text, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %q: %w: %s", name, args, err, text)
	}
	return nil
}
