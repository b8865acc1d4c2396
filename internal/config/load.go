package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sethvargo/go-envconfig"
)

// Load reads the settings from an environment of NAME=value strings, such as os.Environ
// returns. An empty value counts as not set; of a name given twice the first counts.
//
// The warnings, one line each, are for the operator and stop nothing. The error is a Faults
// with everything that is wrong. Neither shows a secret.
func Load(environ []string) (*Config, []string, error) {
	l := newLoader(environ)
	l.judgeNames()
	l.readFiles()
	for _, s := range settings {
		l.readField(s)
	}
	l.judgeTogether()
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, func(a, b Fault) int { return cmp.Compare(place(a.Name), place(b.Name)) })
		return nil, l.warnings, l.faults
	}
	return l.config, l.warnings, nil
}

// HTTPAddr reads HTTP_ADDR and nothing else, for a program that only asks the daemon how it
// is. The error is a Faults.
func HTTPAddr(environ []string) (string, error) {
	l := newLoader(environ)
	for _, s := range settings {
		if s.name == "HTTP_ADDR" {
			l.readField(s)
		}
	}
	if len(l.faults) > 0 {
		return "", l.faults
	}
	return l.config.HTTPAddr, nil
}

// place is where a variable stands in the table; unknown names come last.
func place(name string) int {
	if i := slices.Index(knownNames, name); i >= 0 {
		return i
	}
	return len(knownNames)
}

// loader is one Load under way.
type loader struct {
	given    map[string]string // what the environment sets to something
	values   map[string]string // the same, and what came from *_FILE, by the variable's own name
	config   *Config
	faults   Faults
	warnings []string
}

func newLoader(environ []string) *loader {
	l := &loader{given: map[string]string{}, values: map[string]string{}, config: &Config{shown: map[string]string{}}}
	seen := map[string]bool{}
	for _, pair := range environ {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || seen[name] {
			continue
		}
		seen[name] = true
		if value != "" {
			l.given[name], l.values[name] = value, value
		}
	}
	return l
}

// Lookup implements envconfig.Lookuper.
func (l *loader) Lookup(name string) (string, bool) {
	value, ok := l.values[name]
	return value, ok
}

// fault notes what is wrong with a variable. A secret that came from a file is told by the
// name of its *_FILE variable, and that by its path.
func (l *loader) fault(name, text string) {
	if file := name + fileSuffix; l.given[name] == "" && l.values[name] != "" {
		name = file
	}
	l.faults = append(l.faults, Fault{Name: oneLine(name), Value: l.shown(name), Text: oneLine(text)})
}

func (l *loader) warn(line string) { l.warnings = append(l.warnings, oneLine(line)) }

// failed reports whether a variable, or its *_FILE variant, has a fault.
func (l *loader) failed(name string) bool {
	return slices.ContainsFunc(l.faults, func(f Fault) bool { return f.Name == name || f.Name == name+fileSuffix })
}

// shown returns a variable's value as a message may show it, "" when there is nothing to
// show. Hidden are secrets, and what may be one in the wrong place: a URL with a password
// or parameters, a file's name that is no path. Of unknown names (a misspelt
// SUREM_SECRET_KEY) nothing is shown.
func (l *loader) shown(name string) string {
	value := l.given[name]
	colon := strings.Index(value, ":")
	isSecret := func(s setting) bool { return s.name == name && s.secret }
	switch {
	case value == "" || !slices.Contains(knownNames, name):
		return ""
	case slices.ContainsFunc(settings, isSecret),
		strings.HasSuffix(name, fileSuffix) && !looksLikePath(value),
		colon >= 0 && strings.LastIndex(value, "@") > colon,
		strings.Contains(value, "://") && strings.ContainsAny(value, "?#"):
		return hidden
	}
	return show(value)
}

func looksLikePath(s string) bool {
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".json")
}

// readFiles takes the secrets that come from files.
func (l *loader) readFiles() {
	for _, s := range settings {
		name := s.name + fileSuffix
		path := l.given[name]
		switch {
		case !s.file || path == "":
		case l.given[s.name] != "":
			l.fault(name, "is given beside "+s.name+"; only one of the two is allowed")
		default:
			secret, err := readSecret(path)
			if err != nil {
				l.fault(name, err.Error())
				continue
			}
			l.values[s.name] = secret
		}
	}
}

// maxSecretFile is the largest file that is read as a secret, in bytes.
const maxSecretFile = 64 << 10

// readSecret returns what a file holds without its trailing line breaks. Errors leave out
// the path.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", cannotRead(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", cannotRead(err)
	}
	if len(data) > maxSecretFile {
		return "", errors.New("is larger than 64 KiB")
	}
	secret := strings.TrimRight(strings.TrimPrefix(string(data), "\ufeff"), "\r\n")
	if secret == "" {
		return "", errors.New("is empty")
	}
	return secret, nil
}

func cannotRead(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// readField sets a setting's field. go-envconfig gets it in a struct of its own, because it
// stops at the first fault of a struct, and its errors, which quote the value, are not used.
func (l *loader) readField(s setting) {
	parse, ours := parsers[s.name]
	typ := s.field.Type
	if ours {
		typ = reflect.TypeFor[string]()
	}
	alone := reflect.New(reflect.StructOf([]reflect.StructField{{Name: s.field.Name, Type: typ, Tag: s.field.Tag}}))
	err := envconfig.ProcessWith(context.Background(), &envconfig.Config{Target: alone.Interface(), Lookuper: l})
	value := alone.Elem().Field(0)
	text := cmp.Or(l.values[s.name], s.def)
	l.config.shown[s.name] = text
	if s.secret && l.values[s.name] != "" {
		l.config.shown[s.name] = hidden
	}
	if ours && text == "" || ours && parse == nil {
		return
	}
	if ours {
		var parsed any
		if parsed, err = parse(text); err != nil {
			l.fault(s.name, err.Error())
			return
		}
		value = reflect.ValueOf(parsed)
	} else if err != nil || !inBounds(s, text, value) {
		l.fault(s.name, s.want())
		return
	}
	reflect.ValueOf(l.config).Elem().FieldByIndex(s.field.Index).Set(value.Convert(s.field.Type))
}

// plainInt is how whole numbers are written: 010, which go-envconfig reads as 8, is not.
var plainInt = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)

func inBounds(s setting, text string, value reflect.Value) bool {
	switch v := value.Interface().(type) {
	case int:
		least, _ := strconv.Atoi(s.min)
		most, _ := strconv.Atoi(s.max)
		return plainInt.MatchString(text) && least <= v && v <= most
	case time.Duration:
		least, _ := time.ParseDuration(s.min)
		most, _ := time.ParseDuration(s.max)
		return least <= v && v <= most
	}
	return true
}

// want says what a setting that go-envconfig reads may be.
func (s setting) want() string {
	switch reflect.Zero(s.field.Type).Interface().(type) {
	case int:
		return "must be a whole number from " + s.min + " to " + s.max
	case time.Duration:
		return "must be a duration such as 90s or 1m30s, from " + s.min + " to " + s.max
	}
	return "must be true or false"
}
