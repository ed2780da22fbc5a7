package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: profile FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	packed, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	stripped, err := strip(data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(stripped); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// stringTable is the field of a profile (perftools.profiles.Profile) that holds all of its strings.
const stringTable = 6

var errFormat = errors.New("is no profile")

// strip returns a profile with an empty string in the place of each that is a path from the root.
func strip(data []byte) ([]byte, error) {
	var out []byte
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, errFormat
		}
		switch tag & 7 {
		case 0:
			_, width := binary.Uvarint(data[n:])
			if width <= 0 {
				return nil, errFormat
			}
			n += width
		case 2:
			length, width := binary.Uvarint(data[n:])
			begin := n + width
			if width <= 0 || length > uint64(len(data)-begin) {
				return nil, errFormat
			}
			if tag>>3 == stringTable && length > 0 && data[begin] == '/' {
				out = append(binary.AppendUvarint(out, tag), 0)
				data = data[begin+int(length):]
				continue
			}
			n = begin + int(length)
		default:
			return nil, errFormat
		}
		out = append(out, data[:n]...)
		data = data[n:]
	}
	return out, nil
}
