package dataplane

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"anabranch/dataplane/table"
)

const (
	// secretAge is how long a file's secret is used before the file is looked at again.
	secretAge = 5 * time.Second
	// maxSecret bounds a secret in bytes.
	maxSecret = 16 << 10
)

// secrets reads the credentials towards clusters from where the table says that they are. They
// stay on this machine, and in memory only.
type secrets struct {
	mu    sync.Mutex // guards files
	files map[string]secret
	now   func() time.Time
}

type secret struct {
	value  string
	err    error
	readAt time.Time
}

func newSecrets(now func() time.Time) *secrets {
	return &secrets{files: make(map[string]secret), now: now}
}

// authorization is the header value that a cluster wants. Empty: none.
func (s *secrets) authorization(c *table.Cluster) (string, error) {
	if c.Auth == nil {
		return "", nil
	}
	if c.Auth.Env != "" {
		value := os.Getenv(c.Auth.Env)
		if value == "" {
			return "", fmt.Errorf("credential of cluster %s: variable %s is not set", c.ID, c.Auth.Env)
		}
		return "Bearer " + value, nil
	}
	value, err := s.file(c.Auth.File)
	if err != nil {
		return "", fmt.Errorf("credential of cluster %s: %w", c.ID, err)
	}
	return "Bearer " + value, nil
}

// authorize is authorization for callers with a header at hand.
func (s *secrets) authorize(c *table.Cluster, h http.Header) error {
	value, err := s.authorization(c)
	if value != "" {
		h.Set("Authorization", value)
	}
	return err
}

func (s *secrets) file(path string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	known, ok := s.files[path]
	if ok && now.Sub(known.readAt) < secretAge {
		return known.value, known.err
	}
	value, err := readSecret(path)
	if err != nil && ok && known.err == nil {
		value, err = known.value, nil // it is being replaced: the one that was good goes on
	}
	s.files[path] = secret{value, err, now}
	return value, err
}

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxSecret {
		return "", fmt.Errorf("%s has %d bytes, the limit is %d", path, info.Size(), maxSecret)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	value := strings.TrimSpace(string(b))
	if value == "" || strings.ContainsAny(value, "\r\n") {
		return "", fmt.Errorf("%s does not hold one line", path)
	}
	return value, nil
}
