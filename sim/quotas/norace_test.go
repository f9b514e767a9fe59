//go:build !race

package quotas

const racing = false
