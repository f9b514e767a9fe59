// Package quota plays what can happen to quotas with real processes: three routers, each of a region of
// its own, which serve from the tables on their disks, one Redis, and a link that can fail between each
// router and it. It measures at the model server what was let through, against rate × t + burst over every
// window.
package quota
