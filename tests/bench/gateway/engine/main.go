// An engine that costs almost nothing: it answers chat requests at once, or streams tokens at a fixed pace.
//
// What a benchmark of proxies needs: an engine that is never the slowest part, whose chunks carry the
// time at which they were sent. Of a stream, `max_tokens` says how many chunks it has, and `seed` how many
// milliseconds pass between its head and its first chunk: every proxy lets these two through.
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
	"strconv"
	"time"
)

var (
	listen = flag.String("listen", "127.0.0.1:9001", "address")
	gap    = flag.Duration("gap", 50*time.Millisecond, "time between two chunks of a stream")
)

type request struct {
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	MaxTokens int    `json:"max_tokens"`
	Seed      int    `json:"seed"`
	Options   struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

func main() {
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection)
	}
}

func serve(connection net.Conn) {
	defer connection.Close()
	reader := bufio.NewReaderSize(connection, 8192)
	for {
		path, body, err := read(reader)
		if err != nil {
			return
		}
		var asked request
		if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
			return
		}
		switch {
		case path == "/v1/models":
			err = answer(connection, `{"object":"list","data":[{"id":"bench","object":"model","owned_by":"vllm"}]}`)
		case len(body) == 0:
			err = answer(connection, "{}")
		case asked.Stream:
			err = stream(connection, asked)
		default:
			err = answer(connection, completion)
		}
		if err != nil {
			return
		}
	}
}

// read takes one request from the connection: its path and its body, by Content-Length or in chunks.
func read(reader *bufio.Reader) (path string, body []byte, err error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return "", nil, err
	}
	fields := bytes.Fields(line)
	if len(fields) < 2 {
		return "", nil, io.ErrUnexpectedEOF
	}
	path = string(fields[1])
	length, chunked := 0, false
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return "", nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		}
	}
	if chunked {
		body, err = readChunks(reader)
		return path, body, err
	}
	body = make([]byte, length)
	_, err = io.ReadFull(reader, body)
	return path, body, err
}

func readChunks(reader *bufio.Reader) (body []byte, err error) {
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimSpace([]byte(line))), 16, 32)
		if err != nil {
			return nil, err
		}
		piece := make([]byte, size+2)
		if _, err := io.ReadFull(reader, piece); err != nil {
			return nil, err
		}
		if size == 0 {
			return body, nil
		}
		body = append(body, piece[:size]...)
	}
}

const completion = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1764547200,"model":"bench",` +
	`"choices":[{"index":0,"message":{"role":"assistant","content":"A short answer."},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":20,"completion_tokens":4,"total_tokens":24}}`

func answer(connection net.Conn, body string) error {
	_, err := fmt.Fprintf(connection,
		"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", len(body), body)
	return err
}

const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"

func stream(connection net.Conn, asked request) error {
	if _, err := io.WriteString(connection, head); err != nil {
		return err
	}
	due := time.Now().Add(time.Duration(asked.Seed) * time.Millisecond)
	buffer := make([]byte, 0, 512)
	for range asked.MaxTokens {
		time.Sleep(time.Until(due))
		due = due.Add(*gap)
		event := fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1764547200,`+
			`"model":"bench","choices":[{"index":0,"delta":{"content":"%d "},"logprobs":null,"finish_reason":null}]}`+"\n\n",
			time.Now().UnixNano())
		if _, err := connection.Write(chunk(buffer, event)); err != nil {
			return err
		}
	}
	end := ""
	if asked.Options.IncludeUsage {
		end = fmt.Sprintf(`data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1764547200,`+
			`"model":"bench","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d,"total_tokens":%d}}`+"\n\n",
			asked.MaxTokens, asked.MaxTokens+20)
	}
	last := append(chunk(buffer, end+"data: [DONE]\n\n"), "0\r\n\r\n"...)
	_, err := connection.Write(last)
	return err
}

func chunk(buffer []byte, data string) []byte {
	buffer = strconv.AppendInt(buffer[:0], int64(len(data)), 16)
	buffer = append(buffer, "\r\n"...)
	buffer = append(buffer, data...)
	return append(buffer, "\r\n"...)
}
