package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"anabranch/cmd/anabranch/client"
	"anabranch/controlplane/policy"
)

// errNoFiles says that a command was given nothing to work on.
var errNoFiles = misused(errors.New("no documents: name a file, a folder or - for standard input with -f"))

// documents reads all resources from files, folders (their .yaml, .yml and .json files, however deep)
// and "-". They come in an order in which references point backwards. Anything wrong in any of them
// is an error that names file, field and fix, and nothing is returned.
func (a *app) documents(paths []string) ([]*policy.Resource, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	var all []*policy.Resource
	var wrong []error
	seen := map[string]string{}
	for _, file := range files {
		text, err := a.read(file)
		if err != nil {
			return nil, err
		}
		rs, problems := policy.ParseAll(text)
		readable := len(problems) == 0
		for _, r := range rs {
			for _, p := range policy.Validate(r) {
				if readable { // else they may follow from what could not be read
					p.Field = title(r.Kind, r.Metadata.Name) + " " + p.Field
					problems = append(problems, p)
				}
			}
			id := string(r.Kind) + "/" + r.Metadata.Name
			if other, ok := seen[id]; ok {
				wrong = append(wrong, fmt.Errorf("%s: %s stands in %s too", called(file), id, called(other)))
			}
			seen[id] = file
			all = append(all, r)
		}
		if len(problems) > 0 {
			wrong = append(wrong, fmt.Errorf("%s:%s", called(file), client.Fields(problems)))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is no document in %s: resources stand in files that end in .yaml, .yml or .json", strings.Join(calledAll(paths), ", "))
	}
	client.Sort(all)
	return all, nil
}

// called is what people call a file that -f names.
func called(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

func calledAll(files []string) []string {
	var all []string
	for _, f := range files {
		all = append(all, called(f))
	}
	return all
}

// expand lists the files of folders and of folders in them, but for hidden ones, in the order of names.
func expand(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if p == "-" || err == nil && !info.IsDir() {
			files = append(files, p)
			continue
		}
		if err != nil {
			return nil, err
		}
		err = filepath.WalkDir(p, func(path string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path != p && strings.HasPrefix(e.Name(), "."):
				if e.IsDir() {
					return filepath.SkipDir
				}
			case !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
				files = append(files, path)
			}
			if len(files) > maxFiles {
				return fmt.Errorf("%s holds more than %d files; name the folders that are meant", p, maxFiles)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// maxFiles bounds how many files are read at once.
const maxFiles = 10_000

// read reads a file, or standard input for "-", no more than a stream of documents may have.
func (a *app) read(file string) ([]byte, error) {
	from := a.in
	if file != "-" {
		f, err := os.Open(filepath.Clean(file))
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, policy.MaxStream+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", called(file), err)
	}
	if len(text) > policy.MaxStream {
		return nil, fmt.Errorf("%s is larger than %d bytes; split it", called(file), policy.MaxStream)
	}
	return text, nil
}
