package cafile

import (
	"bytes"
	"fmt"
	"os"
	"sync"

	"k8s.io/client-go/util/cert"
)

// File is a CA bundle in PEM form, read from a file or fixed. It is safe for concurrent use.
type File struct {
	path string

	mu     sync.Mutex // guards bundle
	bundle []byte
}

// New reads the bundle from the path, or uses the fixed one if the path is empty. A file without a certificate is an error.
func New(path string, fixed []byte) (*File, error) {
	f := &File{path: path, bundle: fixed}
	if path == "" {
		return f, nil
	}
	f.bundle = nil
	_, err := f.Reread()
	return f, err
}

// Bundle returns the bundle, empty if there is none. It is read-only.
func (f *File) Bundle() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bundle
}

// Reread reads the file again and reports whether the bundle changed. If the file cannot be read or holds no certificate, it
// returns an error and the bundle stays.
func (f *File) Reread() (changed bool, err error) {
	if f.path == "" {
		return false, nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return false, fmt.Errorf("read CA bundle: %w", err)
	}
	if _, err := cert.ParseCertsPEM(data); err != nil {
		return false, fmt.Errorf("read CA bundle %s: %w; it must hold at least one PEM certificate", f.path, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if bytes.Equal(f.bundle, data) {
		return false, nil
	}
	f.bundle = data
	return true, nil
}
