// Package example makes a program of the code in docs/writing-a-controller.md, word for word.
package example
