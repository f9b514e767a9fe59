package credential

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// keys are what AWS signatures are made with.
type keys struct {
	id, secret string
	token      string // of a session; empty: the keys are long-lived
}

// keys reads AWS keys from a shared credentials file or from the variables that AWS's tools read,
// under the prefix given.
func (r *reader) keys(spec *Spec) (keys, error) {
	if spec.Env == "" {
		text, err := r.file("AWS credentials", spec.File, true)
		if err != nil {
			return keys{}, err
		}
		k, err := profile(text, spec.Profile)
		if err != nil {
			return keys{}, fmt.Errorf("AWS credentials %s: %w", spec.File, err)
		}
		return k, nil
	}
	var k keys
	var err error
	if k.id, err = r.variable(spec.Env + "_ACCESS_KEY_ID"); err != nil {
		return keys{}, err
	}
	if k.secret, err = r.variable(spec.Env + "_SECRET_ACCESS_KEY"); err != nil {
		return keys{}, err
	}
	k.token, _ = r.variable(spec.Env + "_SESSION_TOKEN") // there may be none
	return k, k.check()
}

// profile finds one section of a shared credentials file (AWS SDKs and Tools Reference Guide,
// "Shared config and credentials files"). Empty: default. A section that comes twice is one.
func profile(text []byte, name string) (keys, error) {
	if name == "" {
		name = "default"
	}
	var k keys
	inside, found := false, false
	n := 0
	for line := range bytes.Lines(text) {
		n++
		s := strings.TrimSpace(string(line))
		if s == "" || s[0] == '#' || s[0] == ';' {
			continue
		}
		if s[0] == '[' {
			section, _, ok := strings.Cut(s[1:], "]")
			if !ok {
				return keys{}, fmt.Errorf("line %d opens a section and does not close it", n)
			}
			inside = strings.TrimSpace(section) == name
			found = found || inside
			continue
		}
		if !inside {
			continue
		}
		field, value, ok := strings.Cut(s, "=")
		if !ok {
			if line[0] == ' ' || line[0] == '\t' {
				continue // of a nested setting, which none of ours is
			}
			return keys{}, fmt.Errorf("line %d is neither a section nor a setting", n)
		}
		k.set(strings.ToLower(strings.TrimSpace(field)), uncommented(value))
	}
	switch {
	case !found:
		return keys{}, fmt.Errorf("there is no profile %q", name)
	case k.id == "":
		return keys{}, fmt.Errorf("profile %q has no aws_access_key_id", name)
	case k.secret == "":
		return keys{}, fmt.Errorf("profile %q has no aws_secret_access_key", name)
	}
	return k, k.check()
}

func (k *keys) set(field, value string) {
	switch field {
	case "aws_access_key_id":
		k.id = value
	case "aws_secret_access_key":
		k.secret = value
	case "aws_session_token":
		k.token = value
	}
}

// uncommented is a value without the comment behind it, which white space must precede.
func uncommented(value string) string {
	for i := 1; i < len(value); i++ {
		if (value[i] == '#' || value[i] == ';') && (value[i-1] == ' ' || value[i-1] == '\t') {
			value = value[:i]
			break
		}
	}
	return strings.TrimSpace(value)
}

// check refuses what can't stand in a header.
func (k *keys) check() error {
	if !oneLine(k.id) || !oneLine(k.secret) || !oneLine(k.token) {
		return errors.New("a key or the session token holds control characters")
	}
	return nil
}
