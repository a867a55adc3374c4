// Clients of a proxy under test. It prints one JSON object: what they saw.
//
// `small`: closed loop, each connection sends the next request when it has the answer to the last.
// `streams`: all connections open a stream, spread over the ramp, and read it to its end; the lag of a chunk
// is the time from the engine's send to its arrival here.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	target      = flag.String("target", "127.0.0.1:8000", "address of the proxy")
	mode        = flag.String("mode", "small", "small or streams")
	connections = flag.Int("connections", 1, "connections at once")
	duration    = flag.Duration("duration", 2*time.Second, "small: how long")
	ramp        = flag.Duration("ramp", time.Second, "streams: time over which they are opened")
	tokens      = flag.Int("tokens", 100, "streams: chunks of each stream")
	silence     = flag.Duration("silence", 0, "streams: time from the head to the first chunk")
	bodyBytes   = flag.Int("body", 600, "bytes of a request's body, about")
	path        = flag.String("path", "/v1/chat/completions", "request path")
	model       = flag.String("model", "bench", "model of a request")
)

type result struct {
	Requests int     `json:"requests"`
	Failed   int     `json:"failed"`
	Seconds  float64 `json:"seconds"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Chunks   int     `json:"chunks"`
	LagP50   float64 `json:"lag_p50_us"`
	LagP99   float64 `json:"lag_p99_us"`
	Failure  string  `json:"failure,omitempty"`
}

// worker is one connection and what it saw.
type worker struct {
	times   []time.Duration // small: of each request; streams: to the first chunk
	lags    []time.Duration
	failed  int
	failure string
}

func main() {
	flag.Parse()
	workers := make([]worker, *connections)
	var group sync.WaitGroup
	began := time.Now()
	for n := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			if *mode == "small" {
				workers[n].small(began.Add(*duration))
				return
			}
			time.Sleep(time.Duration(n) * *ramp / time.Duration(*connections))
			workers[n].stream()
		}()
	}
	group.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(summary(workers, time.Since(began))); err != nil {
		log.Fatal(err)
	}
}

func summary(workers []worker, took time.Duration) result {
	var times, lags []time.Duration
	sum := result{Seconds: took.Seconds()}
	for _, one := range workers {
		times = append(times, one.times...)
		lags = append(lags, one.lags...)
		sum.Failed += one.failed
		if one.failure != "" {
			sum.Failure = one.failure
		}
	}
	sum.Requests, sum.Chunks = len(times), len(lags)
	sum.P50, sum.P99 = quantile(times, 0.5), quantile(times, 0.99)
	sum.LagP50, sum.LagP99 = quantile(lags, 0.5), quantile(lags, 0.99)
	return sum
}

func quantile(values []time.Duration, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sort.Slice(values, func(a, b int) bool { return values[a] < values[b] })
	return float64(values[int(share*float64(len(values)-1))].Nanoseconds()) / 1000
}

func request(streaming bool) []byte {
	filler := strings.Repeat("x", max(0, *bodyBytes-120))
	options := ""
	if streaming {
		options = fmt.Sprintf(`,"stream":true,"max_tokens":%d,"seed":%d`, *tokens, silence.Milliseconds())
	}
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]%s}`, *model, filler, options)
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nhost: %s\r\ncontent-type: application/json\r\n"+
		"accept: */*\r\ncontent-length: %d\r\n\r\n%s", *path, *target, len(body), body)
}

func (w *worker) small(until time.Time) {
	sent := request(false)
	var connection net.Conn
	var reader *bufio.Reader
	for time.Now().Before(until) {
		if connection == nil {
			var err error
			if connection, err = net.Dial("tcp", *target); err != nil {
				w.fail(err)
				return
			}
			reader = bufio.NewReader(connection)
		}
		began := time.Now()
		if _, err := connection.Write(sent); err != nil {
			w.fail(err)
			connection.Close()
			connection = nil
			continue
		}
		status, err := readAnswer(reader)
		if err != nil || status != 200 {
			w.fail(fmt.Errorf("status %d: %w", status, err))
			connection.Close()
			connection = nil
			continue
		}
		w.times = append(w.times, time.Since(began))
	}
	if connection != nil {
		connection.Close()
	}
}

func (w *worker) fail(err error) {
	w.failed++
	w.failure = err.Error()
}

// readHead reads a response's head: status, length of the body (-1 in chunks or up to the end).
func readHead(reader *bufio.Reader) (status, length int, chunked bool, err error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return 0, 0, false, err
	}
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		return 0, 0, false, io.ErrUnexpectedEOF
	}
	status, _ = strconv.Atoi(string(fields[1]))
	length = -1
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return 0, 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return status, length, chunked, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
}

func readAnswer(reader *bufio.Reader) (int, error) {
	status, length, chunked, err := readHead(reader)
	if err != nil {
		return status, err
	}
	if !chunked {
		if length < 0 {
			return status, io.ErrUnexpectedEOF
		}
		_, err = reader.Discard(length)
		return status, err
	}
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return status, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return status, err
		}
		if _, err := reader.Discard(int(size) + 2); err != nil {
			return status, err
		}
		if size == 0 {
			return status, nil
		}
	}
}

var content = []byte(`"content":"`)

// stream reads one stream line by line, so that the framing of the proxy does not matter.
func (w *worker) stream() {
	connection, err := net.Dial("tcp", *target)
	if err != nil {
		w.fail(err)
		return
	}
	defer connection.Close()
	began := time.Now()
	if _, err := connection.Write(request(true)); err != nil {
		w.fail(err)
		return
	}
	reader := bufio.NewReaderSize(connection, 4096)
	status, _, _, err := readHead(reader)
	if err != nil || status != 200 {
		w.fail(fmt.Errorf("status %d: %w", status, err))
		return
	}
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			w.fail(fmt.Errorf("after %d chunks: %w", len(w.lags), err))
			return
		}
		if bytes.HasPrefix(line, []byte("data: [DONE]")) {
			return
		}
		at := bytes.Index(line, content)
		if at < 0 {
			continue
		}
		now := time.Now()
		if len(w.lags) == 0 {
			w.times = append(w.times, now.Sub(began))
		}
		digits := line[at+len(content):]
		sent, err := strconv.ParseInt(string(digits[:bytes.IndexByte(digits, ' ')]), 10, 64)
		if err != nil {
			w.fail(err)
			return
		}
		w.lags = append(w.lags, time.Duration(now.UnixNano()-sent))
	}
}
