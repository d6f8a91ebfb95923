// A verifier of evidence packs in Go, written from docs/reference/evidence.md: it shows that the page is enough.
//
// It reads packs from stdin, each after a line {"size":…,"head":…,"key":…,"log_head":…}, and prints a verdict a line.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The kinds of line: the part of the pack, and the fields in their order.
var kinds = [][]string{
	strings.Fields("1 evidence conversation entries head streams from to time program statement log_head"),
	strings.Fields("2 record stream what value parent salt name previous digest"),
	strings.Fields("2 record stream what value parent content previous digest"),
	strings.Fields("3 blob base64"),
	strings.Fields("3 position id at topic salt payload digest"),
	strings.Fields("3 position id at topic size withheld digest"),
	strings.Fields("3 position id at topic size erased payload digest"),
	strings.Fields("4 request sources body sent"),
	strings.Fields("5 heads"),
	strings.Fields("6 signature key by of"),
	strings.Fields("7 anchor of name answer"),
	strings.Fields("8 end sha256"),
}

const (
	number = `(?:0|[1-9][0-9]{0,14}|[1-8][0-9]{15})`
	digest = `"[0-9a-f]{64}"`
)

var (
	patterns = map[string]*regexp.Regexp{}
	anyText  = regexp.MustCompile(`^"(?:[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(?:0[0-7be-f]|1[0-9a-f]))*"`)
	logHead  = regexp.MustCompile(`^(0|[1-9][0-9]*)-(` + number + `)-([0-9a-f]{64})$`)
)

func init() {
	listOf := func(one string) string { return `\[(?:` + one + `(?:,` + one + `)*)\]` }
	for names, pattern := range map[string]string{
		"evidence entries from to time record stream value parent position at size request end": number,
		"head digest content blob withheld erased key of sha256":                                digest,
		"previous":  `"(?:[0-9a-f]{64})?"`,
		"salt":      `"(?:[0-9a-f]{32})?"`,
		"signature": `"[0-9a-f]{128}"`,
		"streams":   listOf(`\[` + number + `,` + number + `\]`),
		"heads":     listOf(`\[` + number + `,` + number + `,` + digest + `\]`),
		"sources":   `(?:\[\]|` + listOf(number) + `)`,
	} {
		for _, name := range strings.Fields(names) {
			patterns[name] = regexp.MustCompile("^" + pattern)
			patterns[name].Longest()
		}
	}
}

type line struct {
	part int
	kind string // the first field, and "withheld", "erased" of such an entry
	raw  map[string]string
}

func (l line) num(name string) int64 {
	value, _ := strconv.ParseInt(l.raw[name], 10, 64)
	return value
}

func (l line) text(name string) string { return textOf(l.raw[name]) }

func (l line) has(name string) bool { _, is := l.raw[name]; return is }

func textOf(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return ""
	}
	return text
}

// parse returns a line of canonical form.
func parse(raw []byte) (line, bool) {
	if !bytes.HasSuffix(raw, []byte("\n")) || !utf8.Valid(raw) {
		return line{}, false
	}
	for _, kind := range kinds {
		if found, is := parseAs(string(raw[:len(raw)-1]), kind); is {
			return found, true
		}
	}
	return line{}, false
}

func parseAs(rest string, kind []string) (line, bool) {
	part, _ := strconv.Atoi(kind[0])
	found := line{part, kind[1], map[string]string{}}
	before := "{"
	for _, name := range kind[1:] {
		start := before + `"` + name + `":`
		if !strings.HasPrefix(rest, start) {
			return line{}, false
		}
		rest, before = rest[len(start):], ","
		pattern := patterns[name]
		if pattern == nil {
			pattern = anyText
		}
		value := pattern.FindString(rest)
		if value == "" || !allowed(name, value) {
			return line{}, false
		}
		found.raw[name], rest = value, rest[len(value):]
	}
	return found, rest == "}"
}

func allowed(name, value string) bool {
	switch name {
	case "id", "topic", "what", "by":
		return !strings.Contains(textOf(value), "\n")
	case "base64", "answer":
		content, err := base64.StdEncoding.Strict().DecodeString(textOf(value))
		return err == nil && base64.StdEncoding.EncodeToString(content) == textOf(value)
	}
	return true
}

func sum(parts ...any) string {
	all := sha256.New()
	for _, part := range parts {
		switch part := part.(type) {
		case string: // hexadecimal digits
			content, _ := hex.DecodeString(part)
			all.Write(content)
		case []byte:
			all.Write(part)
		case []any: // lines
			for _, one := range part {
				fmt.Fprintf(all, "%v\n", one)
			}
		}
	}
	return hex.EncodeToString(all.Sum(nil))
}

type place struct{ stream, position int64 }

type fork struct {
	what          string
	parent, value int64
}

type pack struct {
	wantedHead, wantedKey *string
	wantedLog             *string
	lines                 int
	last                  line
	said                  line
	streams               [][]json.RawMessage
	all                   []byte // the bytes so far
	of                    string
	records, record       int64
	chained               string
	forks                 map[int64]fork
	names                 map[int64]*string
	left                  map[place]*string
	position              int64
	digest                string
	firstAt, lastAt       int64
	blobs                 map[string]bool
	unnamed               []string
	payloads              map[int64]string
	isWithheld            map[int64]bool
	withheld, erased      []int64
	requests              []int64
	signed                [][2]string
	keys                  map[string]bool
	logHead               string
}

// read returns the check that the next line fails, or "".
func (p *pack) read(raw []byte) string {
	p.lines++
	if p.last.part == 8 {
		return "end"
	}
	found, is := parse(raw)
	if !is {
		return "form"
	}
	before := p.last.part
	p.last = found
	if before == 0 {
		p.said = found
		json.Unmarshal([]byte(found.raw["streams"]), &p.streams)
	}
	if found.part < before || (found.part == before && (before == 1 || before == 5)) {
		return "order"
	}
	if (p.position == p.said.num("entries")) != (found.part > 3) {
		return "order"
	}
	if before <= 2 && found.part > 2 && !p.lineage() {
		return "lineage"
	}
	if before <= 3 && found.part > 3 && !p.atHead() {
		return "head"
	}
	if before <= 5 && found.part > 5 {
		p.of = sum(p.all)
	}
	if (found.part == 6 || found.part == 7) && found.text("of") != p.of {
		return "content"
	}
	failed := p.own(found)
	p.all = append(p.all, raw...)
	return failed
}

func (p *pack) own(l line) string {
	switch l.kind {
	case "record":
		return unless(p.takeRecord(l), "record")
	case "blob":
		content, _ := base64.StdEncoding.DecodeString(l.text("base64"))
		name := l.text("blob")
		is := sum(content) == name && !p.blobs[name]
		p.blobs[name], p.unnamed = true, append(p.unnamed, name)
		return unless(is, "blob")
	case "position":
		return p.takeEntry(l)
	case "request":
		return unless(p.takeRequest(l), "request")
	case "heads":
		return unless(p.takeHeads(l), "log_head")
	case "signature":
		return unless(p.takeSignature(l), "signature")
	case "anchor":
		answer, _ := base64.StdEncoding.DecodeString(l.text("answer"))
		of, _ := hex.DecodeString(l.text("of"))
		return unless(l.text("anchor") != "rfc3161" || bytes.Contains(answer, of), "anchor")
	case "end":
		if l.num("end") != int64(p.lines-1) || l.text("sha256") != sum(p.all) {
			return "end"
		}
		if p.wantedLog != nil && (p.logHead == "" || *p.wantedLog != p.logHead) {
			return "log_head"
		}
		return unless(p.wantedKey == nil || p.keys[*p.wantedKey], "key")
	}
	return ""
}

func unless(holds bool, check string) string {
	if holds {
		return ""
	}
	return check
}

func (p *pack) takeRecord(l line) bool {
	number, stream, what, value := l.num("record"), l.num("stream"), l.text("what"), l.num("value")
	previous := l.text("previous")
	if number <= p.record || (number == p.record+1 && previous != p.chained) {
		return false
	}
	if number > p.record+1 && previous == "" {
		return false
	}
	content := l.text("content")
	var name *string
	if l.has("name") {
		text := l.text("name")
		name, content = &text, sum(l.text("salt"), []byte(text))
		if (text == "") != (l.text("salt") == "") {
			return false
		}
	}
	p.chained = sum(previous, []any{number, stream, what, value, l.num("parent")}, content)
	p.record, p.records = number, p.records+1
	switch what {
	case "begun", "forked":
		p.forks[stream] = fork{what, l.num("parent"), value}
		p.names[stream] = name
	case "renamed":
		p.names[stream] = name
	case "erased":
		p.left[place{stream, value}] = name
	}
	return p.chained == l.text("digest")
}

func (p *pack) pair(at int) (stream, first int64) {
	stream, _ = strconv.ParseInt(string(p.streams[at][0]), 10, 64)
	first, _ = strconv.ParseInt(string(p.streams[at][1]), 10, 64)
	return
}

func (p *pack) lineage() bool {
	var before int64
	for at := range p.streams {
		stream, first := p.pair(at)
		found, is := p.forks[stream]
		start := int64(1)
		if at == 0 && (!is || found != fork{"begun", 0, 0}) {
			return false
		}
		if at > 0 {
			if !is || found.what != "forked" || found.parent != before {
				return false
			}
			start = found.value + 1
		}
		if at+1 < len(p.streams) {
			if _, following := p.pair(at + 1); following < start {
				start = following
			}
		}
		if first != start {
			return false
		}
		before = stream
	}
	name := p.names[before]
	return name != nil && *name == p.said.text("conversation")
}

func (p *pack) atHead() bool {
	if p.firstAt != p.said.num("from") || p.lastAt != p.said.num("to") || p.digest != p.said.text("head") {
		return false
	}
	return p.wantedHead == nil || *p.wantedHead == p.digest
}

func (p *pack) stream() int64 {
	var found int64
	for at := range p.streams {
		if stream, first := p.pair(at); first <= p.position {
			found = stream
		}
	}
	return found
}

func (p *pack) takeEntry(l line) string {
	position, payload := l.num("position"), l.text("payload")
	size, content, isShown := l.num("size"), l.text("withheld")+l.text("erased"), l.has("salt")
	if isShown {
		size, content = int64(len(payload)), sum(l.text("salt"), []byte(payload))
	}
	header := []any{position, l.text("id"), l.num("at"), l.text("topic"), size}
	p.digest = sum(p.digest, header, content)
	if position != p.position+1 || p.digest != l.text("digest") {
		return "entry"
	}
	p.position, p.lastAt = position, l.num("at")
	if position == 1 {
		p.firstAt = p.lastAt
	}
	if l.has("erased") {
		left := p.left[place{p.stream(), position}]
		if left == nil || (payload == "") != (*left == "") || (payload != "" && *left != sum([]byte(payload))) {
			return "erasure"
		}
	}
	for _, name := range p.unnamed {
		if !isShown || !strings.Contains(payload, name) {
			return "blob"
		}
	}
	p.unnamed = nil
	switch {
	case l.has("withheld"):
		p.withheld, p.isWithheld[position] = append(p.withheld, position), true
	case l.has("erased"):
		p.erased = append(p.erased, position)
	default:
		p.payloads[position] = payload
	}
	return ""
}

func (p *pack) takeRequest(l line) bool {
	at := l.num("request")
	payload, isShown := p.payloads[at]
	if !isShown || !strings.Contains(payload, `"receipt"`) {
		return false
	}
	if count := len(p.requests); count > 0 && p.requests[count-1] >= at {
		return false
	}
	var fields, receipt map[string]json.RawMessage
	if json.Unmarshal([]byte(payload), &fields) != nil || json.Unmarshal(fields["receipt"], &receipt) != nil {
		return false
	}
	if textOf(string(receipt["sha256"])) != sum([]byte(l.text("body"))) {
		return false
	}
	if sent := l.text("sent"); sent != "" && textOf(string(receipt["sent"])) != sum([]byte(sent)) {
		return false
	}
	var sources []int64
	json.Unmarshal([]byte(l.raw["sources"]), &sources)
	before := int64(0)
	for _, source := range sources {
		if source <= before || source >= at || p.isWithheld[source] {
			return false
		}
		before = source
	}
	p.requests = append(p.requests, at)
	return true
}

func (p *pack) takeHeads(l line) bool {
	parts := logHead.FindStringSubmatch(p.said.text("log_head"))
	if parts == nil || parts[1] != fmt.Sprint(p.record) || p.record != p.records {
		return false
	}
	var rows [][3]any
	decoder := json.NewDecoder(strings.NewReader(l.raw["heads"]))
	decoder.UseNumber()
	decoder.Decode(&rows)
	hashed, before, isBound := []any{[]any{parts[1], parts[2]}, p.chained}, int64(-1), false
	for _, row := range rows {
		stream, _ := row[0].(json.Number).Int64()
		position, _ := row[1].(json.Number).Int64()
		if stream <= before {
			return false
		}
		before = stream
		isBound = isBound || (stream == p.stream() && position == p.position && row[2].(string) == p.digest)
		hashed = append(hashed, []any{stream, position}, row[2])
	}
	p.logHead = p.said.text("log_head")
	return isBound && sum(hashed...) == parts[3]
}

func (p *pack) takeSignature(l line) bool {
	key, _ := hex.DecodeString(l.text("key"))
	signature, _ := hex.DecodeString(l.text("signature"))
	text := "stenolog evidence 1\n" + l.text("by") + "\n" + l.text("of")
	p.signed = append(p.signed, [2]string{l.text("key"), l.text("by")})
	p.keys[l.text("key")] = true
	return ed25519.Verify(key, []byte(text), signature)
}

func verify(content []byte, head, key, log *string) map[string]any {
	if !bytes.HasPrefix(content, []byte(`{"evidence":1,`)) {
		return map[string]any{"exit": 2, "check": "pack", "line": 1}
	}
	p := &pack{
		wantedHead: lower(head), wantedKey: lower(key), wantedLog: lower(log), blobs: map[string]bool{}, forks: map[int64]fork{},
		names: map[int64]*string{}, left: map[place]*string{}, payloads: map[int64]string{},
		isWithheld: map[int64]bool{}, keys: map[string]bool{},
		withheld: []int64{}, erased: []int64{}, requests: []int64{}, signed: [][2]string{},
	}
	for len(content) > 0 {
		size := bytes.IndexByte(content, '\n') + 1
		if size == 0 {
			size = len(content)
		}
		if failed := p.read(content[:size]); failed != "" {
			return map[string]any{"exit": 1, "check": failed, "line": p.lines}
		}
		content = content[size:]
	}
	if p.last.part != 8 {
		return map[string]any{"exit": 1, "check": "end", "line": p.lines + 1}
	}
	return map[string]any{
		"exit": 0, "check": "", "line": 0,
		"conversation": p.said.text("conversation"), "entries": p.said.num("entries"), "head": p.digest,
		"withheld": p.withheld, "erased": p.erased, "requests": p.requests, "signed": p.signed, "log_head": p.logHead,
	}
}

func lower(text *string) *string {
	if text == nil {
		return nil
	}
	made := strings.ToLower(*text)
	return &made
}

func main() {
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		asked, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var about struct {
			Size      int
			Head, Key *string
			LogHead   *string `json:"log_head"`
		}
		if err := json.Unmarshal(asked, &about); err != nil {
			panic(err)
		}
		content := make([]byte, about.Size)
		if _, err := io.ReadFull(in, content); err != nil {
			panic(err)
		}
		out.Encode(verify(content, about.Head, about.Key, about.LogHead))
	}
}
