// Sends a request again and again over kept-alive connections, each time for another pod, checks the answers, and prints
// throughput and latencies as JSON.
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
	"strings"
	"sync"
	"time"
)

var (
	url         = flag.String("url", "", "where; its last word is the verb")
	file        = flag.String("body", "", "file with the body")
	uid         = flag.String("uid", "", "text of 36 bytes in the body that becomes the UID of another pod in each request")
	connections = flag.Int("connections", 1, "at the same time")
	requests    = flag.Int("requests", 100, "that count, in all")
	warm        = flag.Int("warm", 0, "requests before, on each connection, that do not count")
	same        = flag.Bool("same", false, "all points may be the same")
)

// request is what is sent, as far as the answer is checked by it.
type request struct {
	NodeNames []string
	Nodes     *struct{ Items []struct{ Metadata struct{ Name string } } }
}

func (asked request) names() []string {
	if asked.Nodes == nil {
		return asked.NodeNames
	}
	names := make([]string, 0, len(asked.Nodes.Items))
	for _, item := range asked.Nodes.Items {
		names = append(names, item.Metadata.Name)
	}
	return names
}

// check says what is wrong with an answer. A server that answers nothing is fast, and no extender.
func check(asked []string, answer []byte) error {
	known := make(map[string]bool, len(asked))
	for _, name := range asked {
		known[name] = true
	}
	if strings.HasSuffix(*url, "/filter") {
		var kept request
		if err := json.Unmarshal(answer, &kept); err != nil {
			return err
		}
		if names := kept.names(); len(names) != len(asked) {
			return fmt.Errorf("%d of %d nodes pass, and no threshold refuses any", len(names), len(asked))
		}
		for _, name := range kept.names() {
			if !known[name] {
				return fmt.Errorf("nobody asked for %q", name)
			}
		}
		return nil
	}
	var list []struct {
		Host  string
		Score int64
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return err
	}
	// a node that is not listed has 0 points
	points := make(map[int64]int)
	for _, one := range list {
		if !known[one.Host] {
			return fmt.Errorf("nobody asked for %q, or it is listed twice", one.Host)
		}
		delete(known, one.Host)
		if one.Score < 0 || one.Score > 10 {
			return fmt.Errorf("%s has %d points", one.Host, one.Score)
		}
		points[one.Score]++
	}
	if points[0] += len(known); points[0] == 0 {
		delete(points, 0)
	}
	if len(list)*2 < len(asked) || (len(points) < 2 && !*same) {
		return fmt.Errorf("%d of %d nodes are listed, with %d different points", len(list), len(asked), len(points))
	}
	return nil
}

// worker sends requests on a connection of its own.
type worker struct {
	client *http.Client
	body   []byte
	place  int
	prefix int64
}

func (own *worker) send(number int) ([]byte, time.Duration) {
	if own.place >= 0 {
		copy(own.body[own.place:], fmt.Sprintf("%016x-%019d", own.prefix, number)[:36])
	}
	start := time.Now()
	response, err := own.client.Post(*url, "application/json", bytes.NewReader(own.body))
	if err != nil {
		log.Fatal(err)
	}
	answer := bytes.NewBuffer(make([]byte, 0, max(response.ContentLength, 0)+bytes.MinRead))
	if _, err := io.Copy(answer, response.Body); err != nil || response.StatusCode != http.StatusOK {
		log.Fatal(response.Status, err)
	}
	response.Body.Close()
	return answer.Bytes(), time.Since(start)
}

func main() {
	flag.Parse()
	body, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	var decoded request
	if err := json.Unmarshal(body, &decoded); err != nil {
		log.Fatal(err)
	}
	asked, place := decoded.names(), -1
	if *uid != "" {
		if place = bytes.Index(body, []byte(*uid)); place < 0 || len(*uid) != 36 {
			log.Fatal("the body does not have the UID, or it has not 36 bytes")
		}
	}
	checked := func(answer []byte) {
		if err := check(asked, answer); err != nil {
			log.Fatal(*url, ": ", err)
		}
	}
	times := make([]float64, *requests)
	workers := make([]*worker, *connections)
	answers := make([][]byte, *connections)
	var warming, group sync.WaitGroup
	for number := range workers {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
		workers[number] = &worker{client, bytes.Clone(body), place, time.Now().UnixNano()}
		warming.Go(func() {
			for at := range max(*warm, 1) {
				answers[number], _ = workers[number].send(*requests + at**connections + number)
			}
		})
	}
	warming.Wait()
	// in full before and after, and the size of each in between
	checked(answers[0])
	least := len(answers[0]) / 2
	began := time.Now()
	for number, own := range workers {
		group.Go(func() {
			for at := number; at < *requests; at += *connections {
				answer, took := own.send(at)
				if len(answer) < least {
					log.Fatalf("an answer has %d bytes, and another one had %d", len(answer), 2*least)
				}
				times[at], answers[number] = float64(took.Microseconds())/1000, answer
			}
		})
	}
	group.Wait()
	took := time.Since(began).Seconds()
	checked(answers[0])
	sent := *requests + max(*warm, 1)**connections
	text, _ := json.Marshal(map[string]any{"perSecond": float64(*requests) / took, "times": times, "sent": sent})
	fmt.Println(string(text))
}
