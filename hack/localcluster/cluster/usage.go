package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTicks is USER_HZ, the unit of CPU times in /proc. It is 100 on every
// architecture that Go supports on Linux.
const clockTicks = 100

// Usage is what a process has consumed. Sizes are in bytes.
type Usage struct {
	// CPU is user plus system time since the start.
	CPU time.Duration
	// RSS is the resident memory now, and Anonymous its part that is not backed
	// by a file; both are 0 when the process has ended.
	RSS, Anonymous int64
	// PeakRSS is the highest resident memory so far.
	PeakRSS int64
}

// Usage reads the process's consumption: from /proc while it runs, from the
// kernel's final account afterwards.
func (p *Process) Usage() (Usage, error) {
	if !p.Running() {
		return p.finalUsage(), nil
	}
	usage, err := readUsage(p.PID())
	if err != nil && !p.Running() {
		return p.finalUsage(), nil
	}
	return usage, err
}

func (p *Process) finalUsage() Usage {
	state := p.cmd.ProcessState
	usage := Usage{CPU: state.UserTime() + state.SystemTime()}
	if rusage, ok := state.SysUsage().(*syscall.Rusage); ok {
		usage.PeakRSS = rusage.Maxrss * 1024
	}
	return usage
}

func readUsage(pid int) (Usage, error) {
	stat, err := readStat(pid)
	if err != nil {
		return Usage{}, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read memory of process %d: %w", pid, err)
	}
	usage := parseStatus(text)
	usage.CPU = stat.cpu
	return usage, nil
}

// parseStatus reads the memory lines of /proc/<pid>/status, which are in kB.
func parseStatus(text []byte) Usage {
	var usage Usage
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 2 {
			continue
		}
		kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "VmRSS:":
			usage.RSS = kilobytes * 1024
		case "VmHWM:":
			usage.PeakRSS = kilobytes * 1024
		case "RssAnon:":
			usage.Anonymous = kilobytes * 1024
		}
	}
	return usage
}

// stat is what this package needs of /proc/<pid>/stat.
type stat struct {
	cpu time.Duration
	// birth is the start time in clock ticks since boot. With the process id it
	// names a process for good, as ids are used again.
	birth int64
	// dead means that only the entry in the process table is left, for a parent
	// that has not asked how the process ended.
	dead bool
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	return parseStat(string(text))
}

// parseStat reads fields 3 (state), 14 (utime), 15 (stime) and 22 (starttime) of proc(5).
// The second field is the program's name in brackets and may hold anything, so
// counting starts after the last bracket.
func parseStat(text string) (stat, error) {
	_, rest, found := cutLast(text, ")")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return stat{}, fmt.Errorf("parse process state %q: too few fields", text)
	}
	var numbers [3]int64
	for i, field := range []string{fields[11], fields[12], fields[19]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("parse process state %q: %w", text, err)
		}
		numbers[i] = n
	}
	ticks := time.Duration(numbers[0] + numbers[1])
	return stat{cpu: ticks * time.Second / clockTicks, birth: numbers[2], dead: fields[0] == "Z" || fields[0] == "X"}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
