package lastgood

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"anabranch/dataplane/table"
)

const (
	trialName    = "trial.json"
	trialVersion = 1
	// maxTrial bounds the tables on trial: a control plane publishes one each few seconds at most.
	maxTrial = 64
	// maxTrialFile bounds the file in bytes.
	maxTrialFile = 64 << 10
	// crashes are how many starts in a row must find the same tables on trial: one end within
	// moments of a new table is a power cut or somebody's kill, two are no accident.
	crashes = 2
)

// tried is a table that has been put in force and has yet to prove itself, oldest first.
type tried struct {
	ref table.Ref
	at  time.Time
}

// trialFile is what a start finds of the tables that were on trial when the router last ended.
type trialFile struct {
	Version int `json:"version"`
	// Starts that found these tables.
	Starts int         `json:"starts"`
	Tables []table.Ref `json:"tables"`
}

// Started reads which tables were on trial when the router last ended, and counts the start. It
// returns the suspects, oldest first: those that two starts in a row have found there. They stay
// suspects until [Dir.Try] is told of another table. Call it once, before the others.
func (d *Dir) Started(now time.Time) (suspects []table.Ref, err error) {
	f, err := d.readTrial()
	if err != nil || len(f.Tables) == 0 {
		return nil, err
	}
	f.Starts++
	d.starts = f.Starts
	for _, ref := range f.Tables {
		d.trial = append(d.trial, tried{ref, now})
	}
	if f.Starts >= crashes {
		suspects = f.Tables
		d.suspected = true
	}
	return suspects, d.writeTrial()
}

// Try notes that a table is about to be put in force, so that the next start knows if the router
// does not live through it. On return without error that survives a power cut.
func (d *Dir) Try(ref table.Ref, now time.Time) error {
	if d.suspected {
		d.trial, d.suspected = nil, false
	}
	d.starts = 0
	d.trial = append(d.trial, tried{ref, now})
	if len(d.trial) > maxTrial {
		d.trial = slices.Clone(d.trial[len(d.trial)-maxTrial:])
	}
	return d.writeTrial()
}

// Prove ends the trial of the tables that were put in force before a moment. Suspects are not in
// force, and prove nothing.
func (d *Dir) Prove(before time.Time) error {
	n := 0
	for n < len(d.trial) && d.trial[n].at.Before(before) {
		n++
	}
	if n == 0 || d.suspected {
		return nil
	}
	d.trial = slices.Clone(d.trial[n:])
	d.starts = 0
	return d.writeTrial()
}

// Acquit ends the trial of all tables, suspects too where there is no other to serve by.
func (d *Dir) Acquit() error {
	if len(d.trial) == 0 {
		return nil
	}
	d.trial, d.starts, d.suspected = nil, 0, false
	return d.writeTrial()
}

// End is for a router that ends in good order: the tables on trial are not to blame for it.
// Suspects stay what they are.
func (d *Dir) End() error {
	if d.suspected {
		return nil
	}
	return d.Acquit()
}

// onTrial says whether a table has yet to prove itself.
func (d *Dir) onTrial(epoch, revision uint64) bool {
	return slices.ContainsFunc(d.trial, func(t tried) bool { return t.ref.Epoch == epoch && t.ref.Revision == revision })
}

func (d *Dir) readTrial() (trialFile, error) {
	var f trialFile
	path := filepath.Join(d.path, trialName)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return f, fmt.Errorf("read tables on trial: %w", err)
	case info.Size() > maxTrialFile:
		return f, fmt.Errorf("read tables on trial: %s has %d bytes, the limit is %d", path, info.Size(), maxTrialFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return f, fmt.Errorf("read tables on trial: %w", err)
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return trialFile{}, fmt.Errorf("read tables on trial: %s: %w", path, err)
	}
	if f.Version != trialVersion || len(f.Tables) > maxTrial {
		return trialFile{}, fmt.Errorf("read tables on trial: %s: version %d with %d tables", path, f.Version, len(f.Tables))
	}
	return f, nil
}

func (d *Dir) writeTrial() error {
	path := filepath.Join(d.path, trialName)
	if len(d.trial) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keep tables on trial: %w", err)
		}
		return nil
	}
	f := trialFile{Version: trialVersion, Starts: d.starts}
	for _, t := range d.trial {
		f.Tables = append(f.Tables, t.ref)
	}
	text, err := json.Marshal(f)
	if err == nil {
		err = writeSynced(path, text)
	}
	if err != nil {
		return fmt.Errorf("keep tables on trial: %w", err)
	}
	return nil
}
