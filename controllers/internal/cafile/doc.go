// Package cafile holds the CA bundle that controllers publish, and reads its file again while the process runs.
package cafile
