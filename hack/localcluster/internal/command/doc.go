// Package command is the command line of localcluster. It adds to package
// cluster what a person needs: names, running in the background, finding a
// cluster again from another terminal, and words on the screen.
package command
