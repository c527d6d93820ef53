// Fetches files, many at once on connections that stay, and compares them: client ADDRESS FOLDER NAME...
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

const workers, turns = 8, 10

func fetch(client *http.Client, url string, content []byte) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != 200 || !bytes.Equal(body, content)) {
		err = fmt.Errorf("%s: status %d, %d of %d bytes, or others", url, response.StatusCode, len(body), len(content))
	}
	return err
}

func main() {
	address, folder, names := os.Args[1], os.Args[2], os.Args[3:]
	contents := map[string][]byte{}
	for _, name := range names {
		content, err := os.ReadFile(folder + "/" + name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		contents[name] = content
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	failed := make(chan error, workers)
	var all sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := 0; turn < turns; turn++ {
				name := names[(worker+turn)%len(names)]
				if err := fetch(client, "http://"+address+"/"+name, contents[name]); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	all.Wait()
	select {
	case err := <-failed:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	default:
	}
}
