//go:build !race

package plan

const racing = false
