package cluster

import (
	"os"
	"testing"
	"time"
)

func TestParseStatCountsFieldsAfterTheName(t *testing.T) {
	text := "42 (a) odd (name) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 5 0 987654 1000 10"
	got, err := parseStat(text)
	want := stat{cpu: 3 * time.Second, birth: 987654}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestParseStatKnowsADeadProcess(t *testing.T) {
	got, err := parseStat("42 (x) Z 1 42 42 0 -1 4194560 100 0 0 0 0 0 0 0 20 0 5 0 7 0 0")
	if err != nil || !got.dead {
		t.Errorf("got %+v, %v; want dead", got, err)
	}
}

func TestParseStatRefusesWhatItCannotRead(t *testing.T) {
	for _, text := range []string{"", "42", "42 (x) S 1 2", "42 (x) S 1 42 42 0 -1 4194560 100 0 0 0 a b 0 0 20 0 5 0 7 0 0"} {
		if got, err := parseStat(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

func TestParseStatusReadsKilobytes(t *testing.T) {
	got := parseStatus([]byte("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\nRssAnon:\t   512 kB\nThreads:\t4\n"))
	want := Usage{RSS: 1 << 20, PeakRSS: 2 << 20, Anonymous: 512 << 10}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnIdentityIsMoreThanAProcessID(t *testing.T) {
	self := identify(os.Getpid())
	if !self.Alive() {
		t.Error("this process is not alive")
	}
	other := self
	other.Birth++
	if other.Alive() {
		t.Error("a process of the same id that was born later passes for this one")
	}
	if (Identity{PID: os.Getpid()}).Alive() {
		t.Error("an identity without a birth is alive")
	}
	if err := other.Signal(9); err != nil {
		t.Errorf("signal to a process that is gone: %v", err)
	}
}
