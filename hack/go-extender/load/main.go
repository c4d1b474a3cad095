// Sends the same request again and again over kept-alive connections, and prints throughput and latencies as JSON.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

func main() {
	url := flag.String("url", "", "where")
	file := flag.String("body", "", "file with the body")
	connections := flag.Int("connections", 1, "at the same time")
	requests := flag.Int("requests", 100, "in all")
	flag.Parse()
	body, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *connections}}
	times := make([]time.Duration, *requests)
	var size int64
	var group sync.WaitGroup
	began := time.Now()
	for worker := range *connections {
		group.Go(func() {
			for number := worker; number < *requests; number += *connections {
				start := time.Now()
				response, err := client.Post(*url, "application/json", bytes.NewReader(body))
				if err != nil {
					log.Fatal(err)
				}
				read, err := io.Copy(io.Discard, response.Body)
				if err != nil || response.StatusCode != http.StatusOK {
					log.Fatal(response.Status, err)
				}
				response.Body.Close()
				times[number] = time.Since(start)
				if number == 0 {
					size = read
				}
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	slices.Sort(times)
	at := func(part float64) float64 {
		return float64(times[min(len(times)-1, int(part*float64(len(times))))].Microseconds()) / 1000
	}
	result := map[string]any{"perSecond": float64(*requests) / took, "p50": at(0.5), "p99": at(0.99), "answerBytes": size}
	text, _ := json.Marshal(result)
	fmt.Println(string(text))
}
