package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestRaftsLinesArriveWithLevelAndArguments(t *testing.T) {
	var out bytes.Buffer
	logger := raftLogger(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	logger.With("id", 7).Info("restored", "servers", hclog.Fmt("%d of %d", 2, 3))
	logger.Error("failed to heartbeat to", "peer", "n2")
	logger.Debug("not wanted")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), out.String())
	}
	for i, want := range [][]string{
		{"level=INFO", `msg="raft: restored"`, "id=7", `servers="2 of 3"`},
		{"level=WARN", "peer=n2"},
	} {
		for _, w := range want {
			if !strings.Contains(lines[i], w) {
				t.Errorf("line %q has no %s", lines[i], w)
			}
		}
	}
}
