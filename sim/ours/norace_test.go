//go:build !race

package ours

const racing = false
