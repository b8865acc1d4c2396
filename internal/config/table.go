package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// setting is one variable as the tags of its field describe it.
type setting struct {
	name     string
	def      string // "" = none
	min, max string // "" = no such bound
	secret   bool
	file     bool // also comes from the file that name_FILE names
	help     string
	field    reflect.StructField
}

// settings is the table of all variables, in the order of Config's fields.
var settings = func() []setting {
	var all []setting
	for field := range reflect.TypeFor[Config]().Fields() {
		env, ok := field.Tag.Lookup("env")
		if !ok {
			continue
		}
		name, def, _ := strings.Cut(env, ",default=")
		all = append(all, setting{
			name: name, def: def, field: field,
			min: field.Tag.Get("min"), max: field.Tag.Get("max"),
			secret: field.Tag.Get("secret") == "true",
			file:   field.Tag.Get("file") == "true",
			help:   field.Tag.Get("help"),
		})
	}
	return all
}()

// fileSuffix ends the name of the variable that names a secret's file.
const fileSuffix = "_FILE"

// knownNames are the names of all variables, the *_FILE variants included, in the order of
// the table.
var knownNames = func() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
		if s.file {
			names = append(names, s.name+fileSuffix)
		}
	}
	return names
}()

// Print writes the effective settings, one NAME=value per line. Secrets that are set show as
// "[hidden]".
func (c *Config) Print(w io.Writer) {
	for _, s := range settings {
		fmt.Fprintf(w, "%s=%s\n", s.name, oneLine(c.shown[s.name]))
	}
}

// Markdown writes the README's table of all variables.
func Markdown(w io.Writer) {
	fmt.Fprint(w, "| variable | default | meaning |\n|---|---|---|\n")
	for _, s := range settings {
		def := ""
		if s.def != "" {
			def = "`" + s.def + "`"
		}
		meaning := cell(s.help)
		if s.min != "" {
			meaning += "; " + s.min + " to " + s.max
		}
		if s.file {
			meaning += "; or in the file that `" + s.name + fileSuffix + "` names"
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", s.name, def, meaning)
	}
}

// cell escapes what would end a cell of a Markdown table or begin a tag in it.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s) }
