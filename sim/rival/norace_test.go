//go:build !race

package rival

const racing = false
