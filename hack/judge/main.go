// judge lets the kubelet's own YAML reader (sigs.k8s.io/yaml) judge edits of static pods.
//
// It reads lines of {"seed": n, "before": text, "after": text}, reads both texts as the kubelet does, takes out of the
// second what its schedpatch.io/undo annotation says (by an implementation of its own), and demands that the first is left.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	annotations = "/metadata/annotations"
	volume      = "schedpatch-config"
)

type edit struct {
	Seed          uint64
	Before, After string
}

type undo struct {
	V         int               `json:"v"`
	Displaced map[string]string `json:"displaced"`
	Created   []string          `json:"created"`
	Placed    map[string]string `json:"placed"`
}

type object = map[string]any

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	judged, wrong, unreadable := 0, 0, 0
	for lines.Scan() {
		var e edit
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(os.Stderr, "not a sample:", err)
			os.Exit(2)
		}
		// what the kubelet cannot run says nothing about our edit of it
		if err := yaml.Unmarshal([]byte(e.Before), &object{}); err != nil {
			unreadable++
			continue
		}
		judged++
		if err := judge(e); err != nil {
			wrong++
			fmt.Printf("seed %d: %v\n--- before\n%s\n--- after\n%s\n", e.Seed, err, e.Before, e.After)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("%d edits judged by the kubelet's reader, %d wrong; %d originals that it cannot read\n", judged, wrong, unreadable)
	if wrong > 0 || judged == 0 {
		os.Exit(1)
	}
}

func judge(e edit) error {
	var before, after object
	if err := yaml.Unmarshal([]byte(e.Before), &before); err != nil {
		return fmt.Errorf("the kubelet cannot read the original: %w", err)
	}
	if err := yaml.Unmarshal([]byte(e.After), &after); err != nil {
		return fmt.Errorf("the kubelet cannot read the edit: %w", err)
	}
	if err := isPatched(after); err != nil {
		return err
	}
	if err := takeOut(after); err != nil {
		return err
	}
	if !reflect.DeepEqual(before, after) {
		b, _ := json.Marshal(before)
		a, _ := json.Marshal(after)
		return fmt.Errorf("not the original is left:\n%s\n%s", b, a)
	}
	return nil
}

// isPatched demands what the scheduler needs: its flag last, the volume, the mount, and a message when it dies.
func isPatched(pod object) error {
	dir := ""
	for _, v := range list(get(pod, "spec", "volumes")) {
		if m, ok := v.(object); ok && m["name"] == volume {
			dir, _ = get(m, "hostPath", "path").(string)
		}
	}
	for _, c := range list(get(pod, "spec", "containers")) {
		container, _ := c.(object)
		config, mounted := "", false
		words := append(list(container["command"]), list(container["args"])...)
		for i, w := range words {
			word, _ := w.(string)
			if value, ok := strings.CutPrefix(word, "--config="); ok {
				config = value
			} else if word == "--config" && i+1 < len(words) {
				config, _ = words[i+1].(string)
			}
		}
		for _, m := range list(container["volumeMounts"]) {
			mount, _ := m.(object)
			mounted = mounted || mount["name"] == volume && mount["mountPath"] == dir && mount["readOnly"] == true
		}
		if dir != "" && config == dir+"/config.yaml" && mounted && container["terminationMessagePolicy"] == "FallbackToLogsOnError" {
			return nil
		}
	}
	return fmt.Errorf("no container has the flag, the mount and the policy")
}

func takeOut(pod object) error {
	own, _ := get(pod, "metadata", "annotations").(object)
	line, _ := own["schedpatch.io/undo"].(string)
	var u undo
	if err := json.Unmarshal([]byte(line), &u); err != nil || u.V != 1 {
		return fmt.Errorf("the undo annotation cannot be read: %v", err)
	}
	for _, key := range []string{"revision", "generation", "undo"} {
		delete(own, "schedpatch.io/"+key)
	}
	// items and values first, so that a collection is empty when its turn comes
	for _, at := range u.Created {
		if !isCollection(at) {
			remove(pod, at)
		}
	}
	for _, at := range u.Created {
		if isCollection(at) {
			remove(pod, at)
		}
	}
	for at, text := range u.Displaced {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("the displaced text %q cannot be read: %w", text, err)
		}
		set(pod, at, value)
	}
	return nil
}

func isCollection(at string) bool {
	return at == annotations || strings.HasSuffix(at, "/volumes") || strings.HasSuffix(at, "/volumeMounts")
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func get(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(object)
		v = m[key]
	}
	return v
}

func segments(at string) []string {
	parts := strings.Split(strings.TrimPrefix(at, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

// step finds the child that a segment names: a key, an item by its name, the program, or the last flag (with its value).
func step(v any, segment string) (child any, index int) {
	if m, ok := v.(object); ok {
		return m[segment], -1
	}
	// the program of a command
	if segment == "@program" && len(list(v)) > 0 {
		return list(v)[0], 0
	}
	index = -1
	for i, item := range list(v) {
		if m, ok := item.(object); ok && m["name"] == segment {
			return item, i
		}
		word, _ := item.(string)
		flag, _, hasValue := strings.Cut(word, "=")
		// -v and --v are one flag; -config and --config are not
		if short := strings.TrimPrefix(segment, "-"); flag == segment || len(short) == 2 && flag == short {
			index = i
			if !hasValue {
				index = i + 1
			}
		}
	}
	if index >= 0 && index < len(list(v)) {
		return list(v)[index], index
	}
	return nil, -1
}

// parent walks to the collection that holds the last segment, and can put a changed list back into its own parent.
func parent(pod object, at string) (holder any, last string, put func(any)) {
	parts := segments(at)
	var v any = pod
	put = func(any) {}
	for _, part := range parts[:len(parts)-1] {
		outer, name := v, part
		v, _ = step(v, part)
		put = func(changed any) {
			if m, ok := outer.(object); ok {
				m[name] = changed
			}
		}
	}
	return v, parts[len(parts)-1], put
}

func remove(pod object, at string) {
	holder, last, put := parent(pod, at)
	if m, ok := holder.(object); ok {
		delete(m, last)
		return
	}
	if _, i := step(holder, last); i >= 0 {
		items := list(holder)
		put(append(append([]any{}, items[:i]...), items[i+1:]...))
	}
}

func set(pod object, at string, value any) {
	holder, last, _ := parent(pod, at)
	if m, ok := holder.(object); ok {
		m[last] = value
		return
	}
	if _, i := step(holder, last); i >= 0 {
		list(holder)[i] = value
	}
}
