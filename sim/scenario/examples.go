package scenario

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed examples/*.yaml
var examples embed.FS

// Examples are the names of the scenarios that are shipped, in alphabetical order.
func Examples() []string {
	entries, _ := examples.ReadDir("examples") // embedded: it is there
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Example is the text of a scenario that is shipped.
func Example(name string) ([]byte, error) {
	b, err := examples.ReadFile(path.Join("examples", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(Examples(), ", "))
	}
	return b, nil
}
