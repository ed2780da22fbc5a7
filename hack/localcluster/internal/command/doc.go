// Package command is the command line of localcluster. It adds to package
// cluster what interactive use needs: names, running in the background, finding
// a cluster from another terminal, and output on the screen.
package command
