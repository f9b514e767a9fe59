// Package web holds the console, built from the sources beside this file by make, for the control
// plane to serve. Without that build it is empty, and a Go-only build still works.
package web

import (
	"embed"
	"io/fs"
)

// all, so that the kept placeholder makes an empty folder embeddable.
//
//go:embed all:dist
var dist embed.FS

// Dist is the built console: index.html and its assets. Of a build without the console it has no
// index.html, and "make build" makes one that does.
func Dist() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		// Only an invalid name is refused, and this one is not.
		panic(err)
	}
	return files
}
