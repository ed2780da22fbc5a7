package kit

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic turned into an error.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the panic's value; the stack is logged apart.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Guard runs f and returns its error, or a *PanicError if it panics. It cannot help against fatal errors of the
// runtime such as concurrent map writes.
func Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
