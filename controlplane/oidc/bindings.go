package oidc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"anabranch/controlplane/access"
	"anabranch/controlplane/state"
)

// maxBindings bounds the file, in bytes.
const maxBindings = 1 << 20

// Bindings is the file that gives people roles. The first that names somebody counts, and no other.
type Bindings struct {
	Bindings []Binding `json:"bindings"`
}

// Binding gives a role to people, by name or by group.
type Binding struct {
	// Role is viewer, operator, approver or admin.
	Role string `json:"role"`
	// Users and Groups are those who have it, as the provider calls them; one of either does. "*" among
	// the groups is everybody whom the provider knows.
	Users  []string `json:"users,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// Scope narrows it.
	Scope access.Scope `json:"scope,omitempty"`
}

// everybody is the group that all are in.
const everybody = "*"

// of finds what somebody may do; the zero Binding is nothing.
func (b *Bindings) of(name string, groups []string) Binding {
	for _, x := range b.Bindings {
		in := func(g string) bool { return g == everybody || slices.Contains(groups, g) }
		if slices.Contains(x.Users, name) || slices.ContainsFunc(x.Groups, in) {
			return x
		}
	}
	return Binding{}
}

// Validate names what is wrong by its place in the file.
func (b *Bindings) Validate() error {
	var problems []error
	if len(b.Bindings) == 0 {
		problems = append(problems, errors.New("bindings is empty: nobody could do anything"))
	}
	for i, x := range b.Bindings {
		at := fmt.Sprintf("bindings[%d]", i)
		if !slices.Contains(state.Roles(), x.Role) {
			problems = append(problems, fmt.Errorf("%s.role: %q is none of %v", at, x.Role, state.Roles()))
		}
		if len(x.Users)+len(x.Groups) == 0 {
			problems = append(problems, fmt.Errorf("%s names neither users nor groups", at))
		}
		if slices.Contains(x.Users, "") || slices.Contains(x.Groups, "") {
			problems = append(problems, fmt.Errorf("%s holds an empty name", at))
		}
		for _, p := range x.Scope.Validate(at + ".scope") {
			problems = append(problems, fmt.Errorf("%s %s: %s", p.Field, p.Reason, p.Fix))
		}
	}
	return errors.Join(problems...)
}

// stamp tells versions of a file apart.
type stamp struct {
	changed time.Time
	size    int64
}

func readBindings(path string) (*Bindings, stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, stamp{}, err
	}
	s := stamp{info.ModTime(), info.Size()}
	if s.size > maxBindings {
		return nil, s, fmt.Errorf("%s is longer than %d bytes", path, maxBindings)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, s, err
	}
	var b Bindings
	if err := yaml.UnmarshalStrict(text, &b); err != nil {
		return nil, s, fmt.Errorf("read %s: %w", path, err)
	}
	if err := b.Validate(); err != nil {
		return nil, s, fmt.Errorf("read %s: %w", path, err)
	}
	return &b, s, nil
}

// reread takes a new file of bindings in force. A file that can't be read or is wrong leaves those before
// it: nobody is locked out by a slip of the pen, and nobody let in.
func (p *Provider) reread() {
	info, err := os.Stat(p.o.BindingsFile)
	if err == nil && (stamp{info.ModTime(), info.Size()}) == p.file {
		return
	}
	b, s, err := readBindings(p.o.BindingsFile)
	if s == p.file {
		return // as wrong as it was
	}
	p.file = s
	if err != nil {
		p.o.Logger.Error("bindings of OpenID roles are wrong; those before stay in force", "error", err)
		return
	}
	p.bindings.Store(b)
	p.o.Logger.Info("bindings of OpenID roles read again", "bindings", len(b.Bindings))
}
