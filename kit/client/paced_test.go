package client

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a connection on which pieces arrive at certain times.
type scripted struct {
	net.Conn
	start  time.Time
	pieces []piece
	reads  int
}

type piece struct {
	at   time.Duration
	data []byte
}

func (s *scripted) Read(p []byte) (n int, err error) {
	s.reads++
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Until(s.start.Add(s.pieces[0].at)))
	for len(s.pieces) > 0 && time.Since(s.start) >= s.pieces[0].at && n < len(p) {
		m := copy(p[n:], s.pieces[0].data)
		n += m
		if s.pieces[0].data = s.pieces[0].data[m:]; len(s.pieces[0].data) == 0 {
			s.pieces = s.pieces[1:]
		}
	}
	return n, nil
}

func TestAPacedConnectionGathersWhatComesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{start: time.Now()}
		var want []byte
		for i := range 100 {
			s.pieces = append(s.pieces, piece{time.Duration(i) * time.Millisecond, []byte{byte(i)}})
			want = append(want, byte(i))
		}
		got, err := io.ReadAll(&pacedConn{Conn: s})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
		if s.reads > 100/5+3 {
			t.Errorf("%d reads of 100 bytes, one each millisecond", s.reads)
		}
		if took := time.Since(s.start); took > 99*time.Millisecond+2*pace {
			t.Errorf("the last byte came after 99ms, and was read after %v", took)
		}
	})
}

func TestAPacedConnectionDelaysNothing(t *testing.T) {
	for name, s := range map[string]*scripted{
		"after a silence": {pieces: []piece{{time.Second, []byte("a")}, {2 * time.Second, []byte("b")}}},
		"in large pieces": {pieces: []piece{{0, make([]byte, 10<<20)}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s.start = time.Now()
			c := &pacedConn{Conn: s}
			var last time.Duration
			for _, p := range s.pieces {
				last = p.at
				if _, err := io.ReadFull(c, make([]byte, len(p.data))); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(s.start); took != last {
				t.Errorf("%s: read after %v, and arrived after %v", name, took, last)
			}
		})
	}
}

// half returns an error together with data, and from then on alone.
type half struct {
	net.Conn
	read bool
}

var errHalf = errors.New("broken")

func (h *half) Read(p []byte) (int, error) {
	if h.read {
		return 0, errHalf
	}
	h.read = true
	return copy(p, "abc"), errHalf
}

func TestAPacedConnectionReturnsDataBeforeTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got, err := io.ReadAll(&pacedConn{Conn: &half{}})
		if string(got) != "abc" || !errors.Is(err, errHalf) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
