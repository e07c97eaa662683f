// Command tool does in containers what the suite's box does not need to.
//
//	tool dial ADDRESS   connect over TCP; print "ok", or why not
//	tool eat            use more and more memory
//	tool chatter        print a line each millisecond
package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

func main() {
	switch os.Args[1] {
	case "dial":
		conn, err := net.DialTimeout("tcp", os.Args[2], 2*time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		conn.Close()
		fmt.Println("ok")
	case "chatter":
		for n := 0; ; n++ {
			fmt.Println("secret", n)
			time.Sleep(time.Millisecond)
		}
	case "eat":
		var eaten [][]byte
		for {
			bite := make([]byte, 1<<20)
			for i := range bite {
				bite[i] = 1
			}
			eaten = append(eaten, bite)
			if len(eaten) > 1<<14 {
				return
			}
		}
	}
}
