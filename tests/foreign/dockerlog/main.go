// dockerlog writes its standard input as the log of a container, with docker's own copier and
// json-file driver: the real escapes, the real 16 KiB parts, the real rotation.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/docker/docker/daemon/logger"
	"github.com/docker/docker/daemon/logger/jsonfilelog"
)

func run(path, maxSize, maxFile, compress string) error {
	driver, err := jsonfilelog.New(logger.Info{
		ContainerID: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		LogPath:     path,
		Config:      map[string]string{"max-size": maxSize, "max-file": maxFile, "compress": compress},
	})
	if err != nil {
		return err
	}
	copier := logger.NewCopier(map[string]io.Reader{"stdout": os.Stdin}, driver)
	copier.Run()
	copier.Wait()
	return driver.Close()
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: dockerlog PATH MAX-SIZE MAX-FILE COMPRESS < lines")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
