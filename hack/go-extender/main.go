// What a user would write today: an extender in Go that scores nodes from Prometheus, with the types of
// k8s.io/kube-scheduler. hack/extender-bench measures schedpatch-extender beside it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	extender "k8s.io/kube-scheduler/extender/v1"
)

type answer struct {
	Data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
}

var (
	mutex  sync.RWMutex
	values = map[string]map[string]float64{} // by policy and node
	asked  atomic.Int64
)

// counted counts the answers, so that a measurement can see that the scheduler asked.
func counted(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handler(w, r)
		asked.Add(1)
	}
}

func poll(prometheus string, policies []string) {
	for ; ; time.Sleep(15 * time.Second) {
		for _, policy := range policies {
			response, err := http.PostForm(prometheus+"/api/v1/query", url.Values{"query": {policy}})
			if err != nil {
				log.Print(err)
				continue
			}
			var decoded answer
			err = json.NewDecoder(response.Body).Decode(&decoded)
			response.Body.Close()
			if err != nil {
				log.Print(err)
				continue
			}
			column := make(map[string]float64, len(decoded.Data.Result))
			for _, series := range decoded.Data.Result {
				text, _ := series.Value[1].(string)
				if value, err := strconv.ParseFloat(text, 64); err == nil {
					column[series.Metric["node"]] = value
				}
			}
			mutex.Lock()
			values[policy] = column
			mutex.Unlock()
		}
	}
}

func names(args *extender.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	all := make([]string, 0, len(args.Nodes.Items))
	for i := range args.Nodes.Items {
		all = append(all, args.Nodes.Items[i].Name)
	}
	return all
}

func prioritize(w http.ResponseWriter, r *http.Request) {
	var args extender.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked := names(&args)
	totals := make([]float64, len(asked))
	mutex.RLock()
	for _, column := range values {
		least, most := math.Inf(1), math.Inf(-1)
		for _, name := range asked {
			if value, ok := column[name]; ok {
				least, most = min(least, value), max(most, value)
			}
		}
		for i, name := range asked {
			if value, ok := column[name]; ok && most > least {
				totals[i] += (most - value) / (most - least) / float64(len(values))
			}
		}
	}
	mutex.RUnlock()
	list := make(extender.HostPriorityList, len(asked))
	for i, name := range asked {
		list[i] = extender.HostPriority{Host: name, Score: int64(math.Round(totals[i] * 10))}
	}
	json.NewEncoder(w).Encode(list)
}

func filter(w http.ResponseWriter, r *http.Request) {
	var args extender.ExtenderArgs
	if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	result := extender.ExtenderFilterResult{FailedAndUnresolvableNodes: extender.FailedNodesMap{}}
	if args.NodeNames == nil {
		result.Nodes = args.Nodes
		json.NewEncoder(w).Encode(result)
		return
	}
	kept := make([]string, 0, len(*args.NodeNames))
	mutex.RLock()
	for _, name := range *args.NodeNames {
		if value, ok := values["p0"][name]; ok && value > 0.99 {
			result.FailedAndUnresolvableNodes[name] = fmt.Sprintf("p0 is %g", value)
		} else {
			kept = append(kept, name)
		}
	}
	mutex.RUnlock()
	result.NodeNames = &kept
	json.NewEncoder(w).Encode(result)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:9482", "address")
	prometheus := flag.String("prometheus", "", "URL")
	flag.Parse()
	go poll(*prometheus, flag.Args())
	http.HandleFunc("/filter", counted(filter))
	http.HandleFunc("/prioritize", counted(prioritize))
	http.HandleFunc("/asked", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, asked.Load()) })
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		mutex.RLock()
		defer mutex.RUnlock()
		if len(values) < flag.NArg() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}
