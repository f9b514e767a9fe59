package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// destination is a control plane that the user has given a name.
type destination struct {
	Name    string   `json:"name"`
	Servers []string `json:"servers"`
	// Token, or the file that it stands in, or what a login left. None of them: no token is sent.
	Token     string  `json:"token,omitempty"`
	TokenFile string  `json:"tokenFile,omitempty"`
	SignIn    *signIn `json:"signIn,omitempty"`
	// CAFile holds the authorities, in PEM, that its certificates are judged by. Empty: the system's.
	CAFile string `json:"caFile,omitempty"`
}

// contexts is the contexts file: the control planes that the user knows, and which one is meant unless they say so.
type contexts struct {
	Current  string        `json:"current,omitempty"`
	Contexts []destination `json:"contexts"`
}

// maxContexts bounds the file, in bytes.
const maxContexts = 1 << 20

// contextsFile is where contexts are kept.
func contextsFile() (string, error) {
	if named := os.Getenv("ANABRANCH_CONFIG"); named != "" {
		return named, nil
	}
	folder := os.Getenv("XDG_CONFIG_HOME")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the contexts file: %w; ANABRANCH_CONFIG names another", err)
		}
		folder = filepath.Join(home, ".config")
	}
	return filepath.Join(folder, "anabranch", "config.yaml"), nil
}

// loadContexts reads the file; one that is not there holds none.
func loadContexts() (contexts, error) {
	var c contexts
	file, err := contextsFile()
	if err != nil {
		return c, err
	}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return c, err
	case info.Size() > maxContexts:
		return c, fmt.Errorf("%s is larger than %d bytes", file, maxContexts)
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return c, err
	}
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("read %s: %w", file, err)
	}
	for _, p := range c.Contexts {
		if (p.Token != "" || p.SignIn != nil) && info.Mode().Perm()&0o077 != 0 {
			return c, fmt.Errorf("%s holds tokens and others on the machine may read it; run: chmod 600 %s", file, file)
		}
	}
	return c, nil
}

// save writes the file for its owner only, whole or not at all.
func (c contexts) save() error {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".config-*") // which is 0600
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(text).WriteTo(f)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(f.Name()))
	}
	return nil
}

func (c contexts) find(name string) (*destination, error) {
	for i := range c.Contexts {
		if c.Contexts[i].Name == name {
			return &c.Contexts[i], nil
		}
	}
	var all []string
	for _, p := range c.Contexts {
		all = append(all, p.Name)
	}
	switch {
	case name == "" && len(all) == 0:
		return nil, errors.New("there is no context; `anabranch context set NAME --server URL` makes one")
	case name == "":
		return nil, fmt.Errorf("no context is the current one: name one of %s, or choose it with `anabranch context use`", strings.Join(all, ", "))
	case len(all) == 0:
		return nil, fmt.Errorf("there is no context %q; `anabranch context set %s --server URL` makes it", name, name)
	}
	return nil, fmt.Errorf("there is no context %q; there are %s", name, strings.Join(all, ", "))
}

// put adds a destination, or replaces the one of its name; they stay sorted.
func (c *contexts) put(p destination) {
	c.Contexts = slices.DeleteFunc(c.Contexts, func(o destination) bool { return o.Name == p.Name })
	c.Contexts = append(c.Contexts, p)
	slices.SortFunc(c.Contexts, func(a, b destination) int { return strings.Compare(a.Name, b.Name) })
}

// secret is the token that is sent there.
func (p *destination) secret(ctx context.Context) (string, error) {
	if p.SignIn != nil {
		return p.SignIn.idToken(ctx, p.Name, time.Now())
	}
	if p.TokenFile == "" {
		return p.Token, nil
	}
	text, err := os.ReadFile(filepath.Clean(p.TokenFile))
	if err != nil {
		return "", fmt.Errorf("token of context %s: %w", p.Name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// authorities are those of the CA file; nil: the system's.
func (p *destination) authorities() (*x509.CertPool, error) {
	if p.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(filepath.Clean(p.CAFile))
	if err != nil {
		return nil, fmt.Errorf("authorities of context %s: %w", p.Name, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("authorities of context %s: %s holds no certificate in PEM", p.Name, p.CAFile)
	}
	return pool, nil
}
