package serving

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"testing"
)

// TestUnknownCallersMayNotKeepHTTP2Connections counts the connections that requests in a row need.
func TestUnknownCallersMayNotKeepHTTP2Connections(t *testing.T) {
	users := newAuthority(t, "users")
	c := testConfig(t)
	c.Authentication.ClientCAFile = writeFile(t, t.TempDir(), "ca.crt", users.pem)
	addr := start(t, c)

	// counter returns a function that makes one more request and says how many connections there have been.
	counter := func(cert *tls.Certificate) func() int {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }}}
		t.Cleanup(transport.CloseIdleConnections)
		connections := 0
		trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			if !info.Reused {
				connections++
			}
		}})
		return func() int {
			req, err := http.NewRequestWithContext(trace, http.MethodGet, "https://"+addr+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
			return connections
		}
	}
	anonymous, refused, known := counter(&tls.Certificate{}), counter(newAuthority(t, "x").client("jane")), counter(users.client("jane"))
	// It takes the client a moment to hear that a connection ends, so some requests may still get through on it.
	eventually(t, "a third connection of an anonymous caller", func() bool { return anonymous() >= 3 })
	eventually(t, "a third connection of a refused caller", func() bool { return refused() >= 3 })
	for range 20 {
		if n := known(); n != 1 {
			t.Fatalf("a known caller needs %d connections", n)
		}
	}
}

// TestStreamsOfAConnectionAreLimited reads what the server announces when an HTTP/2 connection begins.
func TestStreamsOfAConnectionAreLimited(t *testing.T) {
	const settingsFrame, maxConcurrentStreams = 4, 3 // RFC 9113, sections 6.5 and 6.5.2
	for given, want := range map[int]uint32{0: 100, 7: 7} {
		c := testConfig(t)
		c.Secure.HTTP2MaxStreams = given
		conn, err := tls.Dial("tcp", start(t, c), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			t.Fatal(err)
		}
		header := make([]byte, 9)
		if _, err := io.ReadFull(conn, header); err != nil || header[3] != settingsFrame {
			t.Fatalf("first frame %x, %v", header, err)
		}
		settings := make([]byte, binary.BigEndian.Uint16(header[1:]))
		if _, err := io.ReadFull(conn, settings); err != nil {
			t.Fatal(err)
		}
		var got uint32
		for entry := range slices.Chunk(settings, 6) {
			if binary.BigEndian.Uint16(entry) == maxConcurrentStreams {
				got = binary.BigEndian.Uint32(entry[2:])
			}
		}
		if got != want {
			t.Errorf("--http2-max-streams-per-connection=%d announces %d streams, want %d", given, got, want)
		}
	}
}
