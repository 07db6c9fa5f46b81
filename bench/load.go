package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// warm fetches url n times, one after the other on one connection.
func warm(url string, proxied bool, count string) (report, error) {
	n, err := strconv.Atoi(count)
	if err != nil {
		return report{}, err
	}
	return repeat(client(proxied, false), url, n, 20)
}

// rate fetches url n times over several connections at once, and reports the time
// that one took on average.
func rate(url string, proxied bool, count, connections string) (report, error) {
	n, err1 := strconv.Atoi(count)
	workers, err2 := strconv.Atoi(connections)
	if err := errors.Join(err1, err2); err != nil {
		return report{}, err
	}
	clients := make([]*http.Client, workers)
	errs := make([]error, workers)
	together := func(each int) {
		var all sync.WaitGroup
		for i := range workers {
			all.Go(func() {
				_, err := repeat(clients[i], url, each, 0)
				errs[i] = errors.Join(errs[i], err)
			})
		}
		all.Wait()
	}
	for i := range clients {
		clients[i] = client(proxied, false)
	}
	together(3) // connects
	start := time.Now()
	together(n / workers)
	took := time.Since(start)
	return report{Nanos: []int64{took.Nanoseconds() / int64(n/workers*workers)}}, errors.Join(errs...)
}

// streams opens n answers, each on a connection of its own, prints how long it took until all had
// begun, and holds them until its input ends.
func streams(url, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	c := client(false, false)
	errs := make(chan error, n)
	bodies := make([]io.Closer, n)
	start := time.Now()
	slots := make(chan struct{}, 64)
	for i := range n {
		go func() {
			slots <- struct{}{}
			resp, err := c.Get(url)
			if err == nil {
				bodies[i] = resp.Body
				_, err = io.ReadFull(resp.Body, make([]byte, 5))
			}
			<-slots
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println(time.Since(start))
	_, err = io.Copy(io.Discard, os.Stdin)
	for _, body := range bodies {
		body.Close()
	}
	return err
}
