// Package registry remembers which named clusters run on this machine and
// where their folders are. A cluster's owner holds a file lock for as long as
// it lives, so a name is free again the moment its owner dies, however it dies.
package registry
