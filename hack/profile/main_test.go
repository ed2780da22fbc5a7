package main

import (
	"bytes"
	"testing"
)

func TestNamesOfFilesAreLeftOut(t *testing.T) {
	in := []byte("\x32\x00" + "\x32\x0e/home/me/a.go!" + "\x48\x05" + "\x32\x0correry/kit.F" + "\x0a\x02/x")
	want := []byte("\x32\x00" + "\x32\x00" + "\x48\x05" + "\x32\x0correry/kit.F" + "\x0a\x02/x")
	got, err := strip(in)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for _, no := range []string{"\x32\x05/", "\x80", "\x33", "\x48\x80"} {
		if got, err := strip([]byte(no)); err == nil {
			t.Errorf("%q became %q", no, got)
		}
	}
}
