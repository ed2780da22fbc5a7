// Package binaries finds the programs a local cluster runs, and builds those
// that are not there.
//
// A program is looked for in the folder the caller names, then in the folder
// that KUBEBUILDER_ASSETS names, then in a versioned cache folder. What is
// still missing is compiled by the go command from pinned modules into the
// cache, once per version: the go.mod and go.sum of each build are embedded
// here, so every machine compiles the same sources. Builds take a file lock,
// write to a temporary name and rename at the end; an interrupted build leaves
// nothing that looks finished.
package binaries
