// Package settings gives a command its configuration: a flag wins over the environment, the
// environment over a file. Every setting is a flag; the variable is the prefix and the flag's name
// in capitals (--data-dir is ANABRANCH_DATA_DIR), the file is YAML with flags' names as keys.
//
// It stands on pflag alone: a configuration library would bring a second name for every setting
// and would still not refuse an unknown key.
package settings

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// maxFile bounds a configuration file in bytes.
const maxFile = 1 << 20

// Variable is the environment variable of a flag.
func Variable(prefix, flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Fill sets the flags that the command line left alone, from variables with the prefix and then
// from the file; an empty path means no file. All that is wrong comes back in one joined error,
// each part naming the variable or key and the flag.
func Fill(flags *pflag.FlagSet, prefix, path string) error {
	values, err := read(path)
	if err != nil {
		return err
	}
	var problems []error
	for _, key := range keys(values) {
		if flags.Lookup(key) == nil {
			problems = append(problems, fmt.Errorf("%s: unknown key %q; keys are the names of flags, see --help", path, key))
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			return
		}
		from := Variable(prefix, f.Name)
		text, ok := os.LookupEnv(from)
		if !ok {
			value, ok := values[f.Name]
			if !ok {
				return
			}
			from, text = path+": "+f.Name, plain(value)
		}
		if err := flags.Set(f.Name, text); err != nil {
			problems = append(problems, fmt.Errorf("%s (flag --%s): %w", from, f.Name, err))
		}
	})
	return errors.Join(problems...)
}

func read(path string) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read configuration %s: %d bytes, the limit is %d", path, info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	return values, nil
}

// plain writes a YAML value as a flag takes it; a list becomes comma-separated.
func plain(v any) string {
	list, ok := v.([]any)
	if !ok {
		return fmt.Sprint(v)
	}
	parts := make([]string, len(list))
	for i, item := range list {
		parts[i] = fmt.Sprint(item)
	}
	return strings.Join(parts, ",")
}

func keys(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}
