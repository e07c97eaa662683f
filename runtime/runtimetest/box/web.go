package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// serveWeb serves HTTP on an address: /echo answers with the body, everything else
// with the request and its headers. A request for another protocol is agreed to, and
// what follows comes back.
func serveWeb(args []string) error {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	return http.Serve(l, http.HandlerFunc(web))
}

func web(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		_, _ = io.Copy(onlyWriter{conn}, buffered) // the client sees what is missing
	case strings.HasPrefix(r.URL.Path, "/echo"):
		// Otherwise the server discards a part of the body when the response begins.
		if http.NewResponseController(w).EnableFullDuplex() == nil {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = io.Copy(w, r.Body) // likewise
		}
	default:
		fmt.Fprintf(w, "%s %s %s\n", r.Method, r.RequestURI, r.Host)
		_ = r.Header.Write(w) // likewise
	}
}
