package wire

import (
	"encoding/binary"
)

// Message says what is left out of a message. Fields are named by their numbers, which are below 64.
type Message struct {
	// Keep are the fields that stay, beside those in In; empty: all but those in Drop.
	Keep []int
	// Drop are fields that go.
	Drop []int
	// In says what is left out of fields that are messages, of each where the field is repeated.
	In map[int]Message
	// Needs are fields of which the message must have one in the end; without it goes as a whole. Empty: it stays.
	Needs []int
}

// Filter applies a Message. It is immutable.
type Filter struct {
	drop, needs uint64    // sets of field numbers
	in          []*Filter // by field number; nil: nothing is left out of it
}

// limit is above all field numbers that a Message can name. What is beyond always stays.
const limit = 64

// New returns the Filter that applies a Message.
func New(m Message) *Filter {
	f := &Filter{drop: set(m.Drop), needs: set(m.Needs)}
	if len(m.Keep) > 0 {
		f.drop = ^set(m.Keep)
	}
	for field, inner := range m.In {
		if field >= len(f.in) {
			f.in = append(f.in, make([]*Filter, field+1-len(f.in))...)
		}
		f.in[field] = New(inner)
		f.drop &^= 1 << field
	}
	return f
}

func set(fields []int) (s uint64) {
	for _, f := range fields {
		s |= 1 << f
	}
	return s
}

// Append appends a message without what is to be left out, and is never longer for it. ok is false if the message cannot
// be read; then nothing that was appended counts.
func (f *Filter) Append(out, message []byte) (_ []byte, ok bool) {
	begin, has := len(out), uint64(0)
	kept := 0 // where what stays and has not been copied yet begins
	for at := 0; at < len(message); {
		field, ok := read(message[at:])
		if !ok {
			return out, false
		}
		next := at + field.size
		switch inner := f.inner(field.number); {
		case field.number < limit && f.drop>>field.number&1 == 1:
			out = append(out, message[kept:at]...)
			kept = next
		case inner != nil && field.bytes:
			out = append(out, message[kept:at]...)
			kept = next
			before := len(out)
			if out, ok = inner.nest(out, message[at:next], field.head); !ok {
				return out, false
			}
			if len(out) > before {
				has |= 1 << field.number
			}
		case field.number < limit:
			has |= 1 << field.number
		}
		at = next
	}
	if f.needs != 0 && f.needs&has == 0 {
		return out[:begin], true
	}
	return append(out, message[kept:]...), true
}

func (f *Filter) inner(number uint64) *Filter {
	if number < uint64(len(f.in)) {
		return f.in[number]
	}
	return nil
}

// nest appends a field that is a message, with head bytes of tag and length before it. The length of what stays is put
// in the place of the old one, which is at least as wide.
func (f *Filter) nest(out, field []byte, head int) (_ []byte, ok bool) {
	begin := len(out)
	out = append(out, field[:head]...)
	if out, ok = f.Append(out, field[head:]); !ok {
		return out, false
	}
	length := len(out) - begin - head
	if length == 0 && f.needs != 0 {
		return out[:begin], true
	}
	tag := uvarintSize(field)
	var width [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(width[:], uint64(length))
	copy(out[begin+tag:], width[:n])
	if short := head - tag - n; short > 0 {
		copy(out[begin+tag+n:], out[begin+head:])
		out = out[:len(out)-short]
	}
	return out, true
}

// Field returns the content of the first field of that number that is a string or a message; nil if there is none.
func Field(message []byte, number uint64) []byte {
	for len(message) > 0 {
		f, ok := read(message)
		if !ok {
			return nil
		}
		if f.number == number && f.bytes {
			return message[f.head:f.size]
		}
		message = message[f.size:]
	}
	return nil
}

// field is one field of a message: head bytes of tag and, for strings and messages, length, and the content.
type field struct {
	number     uint64
	head, size int
	bytes      bool // it is a string or a message
}

// The types of fields on the wire.
const (
	varint = 0
	fixed8 = 1
	text   = 2
	fixed4 = 5
)

// read reads the field at the beginning of data. ok is false if there is no whole field.
func read(data []byte) (f field, ok bool) {
	tag, n := binary.Uvarint(data)
	if n <= 0 {
		return f, false
	}
	f.number, f.head = tag>>3, n
	var content uint64
	switch tag & 7 {
	case varint:
		content = uint64(uvarintSize(data[n:]))
		if content == 0 {
			return f, false
		}
	case fixed8:
		content = 8
	case fixed4:
		content = 4
	case text:
		var width int
		if content, width = binary.Uvarint(data[n:]); width <= 0 {
			return f, false
		}
		f.head += width
		f.bytes = true
	default:
		return f, false
	}
	if content > uint64(len(data)-f.head) {
		return f, false
	}
	f.size = f.head + int(content)
	return f, true
}

// uvarintSize returns how many bytes the number at the beginning of data takes; 0 if it does not end.
func uvarintSize(data []byte) int {
	for i, b := range data[:min(len(data), binary.MaxVarintLen64)] {
		if b < 0x80 {
			return i + 1
		}
	}
	return 0
}
