// Franz-go's registry for tests, which keeps schemas in memory: prints its URL, serves until it is ended.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

func main() {
	registry := srfake.New()
	defer registry.Close()
	fmt.Println(registry.URL())
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
