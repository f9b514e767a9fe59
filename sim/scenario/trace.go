package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"anabranch/sim/workload"
)

// Trace is a part of a workload that is read from published traces, which lie in a folder of the
// user's: package workload says where they are published. Without it, or where the file isn't there,
// Otherwise stands in.
type Trace struct {
	// File in the folder of traces; of ServeGen the table of clients, with that of Lengths beside it.
	File, Lengths         string
	workload.TraceOptions `yaml:",inline"`
	// Otherwise is a generator, of a kind and with its options.
	Otherwise yaml.Node
}

// maxTrace bounds a file of traces.
const maxTrace = 256 << 20

// formats are the formats of traces by their names as kinds.
var formats = map[string]func(t *Trace, file, lengths io.Reader) (workload.Source, error){
	"mooncake": func(t *Trace, file, _ io.Reader) (workload.Source, error) {
		return workload.Mooncake(file, t.TraceOptions)
	},
	"azure": func(t *Trace, file, _ io.Reader) (workload.Source, error) {
		return workload.Azure(file, t.TraceOptions)
	},
	"servegen": func(t *Trace, file, lengths io.Reader) (workload.Source, error) {
		return workload.ServeGen(file, lengths, t.TraceOptions)
	},
}

// traceOf reads a part that is a trace.
func traceOf(n *yaml.Node, format string, seed uint64, traces string) (workload.Spec, error) {
	t := &Trace{}
	if err := decode(n, t); err != nil {
		return nil, err
	}
	if err := t.validate(format); err != nil {
		return nil, err
	}
	instead, err := part(&t.Otherwise, seed, "")
	if err != nil {
		return nil, fmt.Errorf("otherwise: %w", err)
	}
	t.Seed = seed
	if traces == "" {
		return instead, nil
	}
	if _, err := os.Stat(filepath.Join(traces, t.File)); errors.Is(err, fs.ErrNotExist) {
		return instead, nil
	}
	return &opened{Trace: t, format: format, folder: traces}, nil
}

func (t *Trace) validate(format string) error {
	switch {
	case !filepath.IsLocal(t.File):
		return fmt.Errorf("file: %q is not the name of a file in the folder of traces", t.File)
	case format == "servegen" && !filepath.IsLocal(t.Lengths):
		return fmt.Errorf("lengths: %q is not the name of a file in the folder of traces", t.Lengths)
	case format != "servegen" && t.Lengths != "":
		return fmt.Errorf("lengths: %s has no such file", format)
	case t.Otherwise.Kind == 0:
		return errors.New("otherwise: say what stands in where the trace isn't there")
	case formats[kindOf(&t.Otherwise)] != nil:
		return errors.New("otherwise: must be a generator")
	}
	return t.Validate()
}

func kindOf(n *yaml.Node) string {
	if kind := child(n, "kind"); kind != nil {
		return kind.Value
	}
	return ""
}

// opened is a trace whose file is there.
type opened struct {
	*Trace
	format, folder string
}

// Source reads the files and starts them.
func (o *opened) Source() (workload.Source, error) {
	file, err := load(filepath.Join(o.folder, o.File))
	if err != nil {
		return nil, err
	}
	var lengths io.Reader
	if o.Lengths != "" {
		if lengths, err = load(filepath.Join(o.folder, o.Lengths)); err != nil {
			return nil, err
		}
	}
	s, err := formats[o.format](o.Trace, file, lengths)
	if err != nil {
		return nil, fmt.Errorf("read trace %s: %w", o.File, err)
	}
	return s, nil
}

// load reads a file whole, since a source is never closed.
func load(path string) (io.Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTrace+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxTrace {
		return nil, fmt.Errorf("read trace %s: is longer than %d bytes", path, maxTrace)
	}
	return bytes.NewReader(b), nil
}

// thinned is the share of a trace's requests that is used; 0: no trace is read.
func (s *Scenario) thinned(o *Options) (float64, error) {
	share := 0.0
	for i := range s.Workload {
		p, err := part(&s.Workload[i], 0, o.Traces)
		if err != nil {
			return 0, err
		}
		if t, ok := p.(*opened); ok {
			if share = t.Thin; share == 0 {
				share = 1
			}
		}
	}
	return share, nil
}
