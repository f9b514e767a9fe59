package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"anabranch/api/fleet"
)

// identityFile is the name of the file in the data folder that says whose it is.
const identityFile = "node.json"

// membership is what the data folder knows of its owner.
type membership struct {
	NodeID fleet.NodeID `json:"nodeId"`
	// ClusterID is empty until the first command of the cluster, Init, has been applied.
	ClusterID string `json:"clusterId,omitempty"`
	// Joined marks a node that others added: it must never start a cluster of its own.
	Joined bool `json:"joined,omitempty"`
}

// loadIdentity reads the folder's identity, or makes one for a new folder. It refuses a folder of
// another node.
func loadIdentity(dir string, id fleet.NodeID, joining bool) (membership, error) {
	path := filepath.Join(dir, identityFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if id == "" {
			id = fleet.NodeID(uuid.NewString())
		}
		made := membership{NodeID: id, Joined: joining}
		return made, saveIdentity(dir, made)
	}
	if err != nil {
		return membership{}, fmt.Errorf("read identity: %w", err)
	}
	var found membership
	if err := json.Unmarshal(b, &found); err != nil {
		return membership{}, fmt.Errorf("read identity: %s: %w: %w", path, err, ErrForeignFolder)
	}
	if found.NodeID == "" {
		return membership{}, fmt.Errorf("read identity: %s names no node: %w", path, ErrForeignFolder)
	}
	if id != "" && id != found.NodeID {
		return membership{}, fmt.Errorf("%s belongs to node %s of cluster %q, not to node %s: %w",
			dir, found.NodeID, found.ClusterID, id, ErrForeignFolder)
	}
	return found, nil
}

// ClusterOf tells which cluster the data folder is of a member of. Empty: of none, there is no such
// folder, or the cluster's first command has not come yet.
func ClusterOf(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	var found membership
	if err == nil {
		err = json.Unmarshal(b, &found)
	}
	if err != nil {
		return "", fmt.Errorf("read identity: %w", err)
	}
	return found.ClusterID, nil
}

// saveIdentity replaces the file in one step.
func saveIdentity(dir string, id membership) error {
	b, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	path := filepath.Join(dir, identityFile)
	if err := writeSynced(path+".new", append(b, '\n')); err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("save identity: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// listDigest names a bootstrap list whatever its order, "" for none, so that nodes that were given
// different lists notice.
func listDigest(peers []Peer) string {
	if len(peers) == 0 {
		return ""
	}
	lines := make([]string, len(peers))
	for i, p := range peers {
		lines[i] = string(p.ID) + "=" + p.Address
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}
